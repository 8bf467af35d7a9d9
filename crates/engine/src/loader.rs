//! From a path to something that can be served: evaluates what the plan says, freezes, reads the declarations.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use starlark::codemap::FileSpan;
use starlark::environment::{FrozenModule, Globals, Module};
use starlark::eval::{Evaluator, ReturnFileLoader};
use starlark::syntax::AstModule;
use starlark::typing::Interface;
use starlark::values::list::{AllocList, ListRef};

pub use crate::globals::Vocabulary;

use crate::check::{Finding, lint, typecheck};
use crate::compile::guarded;
use crate::context::Context;
use crate::convert::from_starlark;
use crate::declare::{Extension, Reader};
use crate::effect::Host;
use crate::error::{ErrorKind, Location, ScriptError, locate};
use crate::files::{Files, ModulePath};
use crate::functions::{extension_of_functions, module_facts};
use crate::limits::{Limits, Stop, Watch};
use crate::plan::{Plan, PlannedFile};
use crate::run::{Convention, Handler, PrintToLog, contain_panics};
use crate::{Json, globals};

/// What came of loading one file.
#[derive(Debug)]
pub struct Loaded {
    pub extension: Extension,
    pub tests: Vec<TestFunction>,
    pub warnings: Vec<Finding>,
    /// Files it was made from besides itself: loaded modules and data.
    pub dependencies: BTreeSet<String>,
    /// Changes exactly when the text of the file or of a module it loads does.
    pub content_hash: String,
}

#[derive(Debug, Clone)]
pub struct TestFunction {
    pub name: String,
    pub handler: Handler,
    pub location: Location,
}

/// The interpreter with its globals and the modules it has compiled.
pub struct Engine {
    server: OnceLock<Globals>,
    test: OnceLock<Globals>,
    modules: Mutex<HashMap<(String, String, Vocabulary), CachedModule>>,
}

/// What every evaluation of one load runs with.
struct Setting<'a> {
    vocabulary: Vocabulary,
    globals: &'a Globals,
    host: &'a dyn Host,
    limits: &'a Limits,
    /// One deadline for a file and all it loads.
    stop: Stop,
}

struct CachedModule {
    key: [u8; 32],
    slot: Arc<OnceLock<Result<Compiled, ScriptError>>>,
}

#[derive(Clone)]
struct Compiled {
    module: FrozenModule,
    /// Data files read while it was evaluated, by it or by what it loads.
    reads: BTreeSet<String>,
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new()
    }
}

impl Engine {
    pub fn new() -> Engine {
        Engine { server: OnceLock::new(), test: OnceLock::new(), modules: Mutex::default() }
    }

    pub(crate) fn globals(&self, vocabulary: Vocabulary) -> &Globals {
        let slot = match vocabulary {
            Vocabulary::Server => &self.server,
            Vocabulary::Test => &self.test,
        };
        slot.get_or_init(|| globals::build(vocabulary))
    }

    fn setting<'a>(&'a self, vocabulary: Vocabulary, host: &'a dyn Host, limits: &'a Limits) -> Setting<'a> {
        let globals = self.globals(vocabulary);
        Setting { vocabulary, globals, host, limits, stop: Stop::after(limits.wall_clock) }
    }

    /// Loads a file as an extension, or as a file of tests.
    pub fn load(
        &self,
        files: &dyn Files,
        path: &str,
        vocabulary: Vocabulary,
        host: &dyn Host,
        limits: &Limits,
    ) -> Result<Loaded, Vec<ScriptError>> {
        let plan = Plan::new(files, path).map_err(|error| vec![error])?;
        let setting = self.setting(vocabulary, host, limits);
        let mut compiled: Vec<Compiled> = Vec::with_capacity(plan.files.len());
        let (entry, modules) = plan.files.split_last().unwrap_or_else(|| unreachable!("a plan has its file"));
        for file in modules {
            compiled.push(self.module(files, file, &compiled, &setting).map_err(|error| vec![error])?);
        }
        load_entry(entry, modules, &compiled, &setting)
    }

    /// The value of a global of a file, as JSON: for configuration written in Starlark.
    pub fn load_value(
        &self,
        files: &dyn Files,
        path: &str,
        name: &str,
        host: &dyn Host,
        limits: &Limits,
    ) -> Result<Option<Json>, ScriptError> {
        let plan = Plan::new(files, path)?;
        let setting = self.setting(Vocabulary::Server, host, limits);
        let mut compiled: Vec<Compiled> = Vec::with_capacity(plan.files.len());
        for file in &plan.files {
            let module = self.module(files, file, &compiled, &setting)?;
            compiled.push(module);
        }
        let module = &compiled.last().unwrap_or_else(|| unreachable!("a plan has its file")).module;
        let Ok(Some(value)) = module.get_option(name) else { return Ok(None) };
        Module::with_temp_heap(|temporary| {
            let value = temporary.heap().access_owned_frozen_value(&value);
            from_starlark(value, temporary.heap())
                .map(Some)
                .map_err(|error| ScriptError::new(ErrorKind::Conversion, format!("`{name}` {error}")))
        })
    }

    /// Forgets modules that read a data file, so that the next load reads it again.
    pub fn forget_data(&self, files: &dyn Files, path: &str) {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.retain(|(root, ..), cached| {
            let reads = matches!(cached.slot.get(), Some(Ok(compiled)) if compiled.reads.contains(path));
            root != files.root() || !reads
        });
    }

    /// Lint and static types of a file, without running it. `Err` if it does not even parse.
    pub fn analyse(
        &self,
        files: &dyn Files,
        path: &str,
        vocabulary: Vocabulary,
    ) -> Result<Vec<Finding>, ScriptError> {
        let plan = Plan::new(files, path)?;
        let globals = self.globals(vocabulary);
        contain_panics(|| {
            let mut interfaces: Vec<Interface> = Vec::new();
            let mut findings = Vec::new();
            for (index, file) in plan.files.iter().enumerate() {
                let loads: HashMap<String, Interface> = file
                    .loads
                    .iter()
                    .map(|(text, index)| (text.clone(), interfaces[*index].clone()))
                    .collect();
                let (types, interface) = typecheck(file.ast.clone(), globals, &loads);
                interfaces.push(interface);
                if index + 1 == plan.files.len() {
                    findings = lint(&file.ast, globals);
                    findings.extend(types);
                }
            }
            Ok(findings)
        })
    }

    /// A module for `load()`, compiled once for its content.
    fn module(
        &self,
        files: &dyn Files,
        file: &PlannedFile,
        compiled: &[Compiled],
        setting: &Setting,
    ) -> Result<Compiled, ScriptError> {
        let slot = {
            let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
            let id = (files.root().to_owned(), file.path.as_str().to_owned(), setting.vocabulary);
            let fresh = || CachedModule { key: file.key, slot: Arc::default() };
            let cached = modules.entry(id).or_insert_with(fresh);
            if cached.key != file.key {
                *cached = fresh();
            }
            cached.slot.clone()
        };
        let result = slot.get_or_init(|| {
            let ((), module, mut reads) = evaluate(file, compiled, setting, |_, _, _| Ok(()))?;
            for (_, index) in &file.loads {
                reads.extend(compiled[*index].reads.iter().cloned());
            }
            Ok(Compiled { module, reads })
        });
        result.clone()
    }
}

/// Evaluates the file itself and reads what it declares.
fn load_entry(
    file: &PlannedFile,
    modules: &[PlannedFile],
    compiled: &[Compiled],
    setting: &Setting,
) -> Result<Loaded, Vec<ScriptError>> {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    // Drafts borrow from the module's heap; what is kept of them must not.
    let mut drafts: Vec<Box<dyn FnOnce(Handler) -> crate::declare::Tool>> = Vec::new();
    let mut described = None;
    let mut facts = None;
    let evaluated = evaluate(file, compiled, setting, |module, eval, context| {
        let describe = module.get("describe_extension");
        let value = match describe {
            Some(describe) => Some(
                eval.eval_function(describe, &[], &[])
                    .map_err(|error| ScriptError::from_starlark(error, Some(&context.watch)))?,
            ),
            None => None,
        };
        let mut sites = context.sites.take();
        let mut reader = Reader {
            heap: module.heap(),
            sites: &mut sites,
            fallback: describe_span(&file.ast),
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        match value {
            Some(value) => {
                if let Some(draft) = reader.extension(value) {
                    let handlers: Vec<_> = draft.tools.iter().map(|tool| tool.handler).collect();
                    module.set_extra_value(module.heap().alloc(AllocList(handlers)));
                    drafts = draft.tools.into_iter().map(|tool| tool.finish).collect();
                    described = Some((draft.name, draft.version, draft.description, draft.capabilities));
                }
            }
            None => facts = Some(module_facts(module, file.path.stem(), &mut reader)),
        }
        errors.append(&mut reader.errors);
        warnings.append(&mut reader.warnings);
        Ok(())
    });
    let ((), module, mut dependencies) = evaluated.map_err(|error| vec![error])?;
    let extension = match (described, facts) {
        (Some((name, version, description, capabilities)), _) => {
            let handlers = frozen_handlers(&module);
            let tools = drafts.into_iter().zip(handlers).map(|(finish, handler)| finish(handler)).collect();
            Extension { name, version, description, tools, capabilities }
        }
        (None, Some(facts)) => {
            // Functions of a test file are tests and their helpers, never tools.
            match setting.vocabulary {
                Vocabulary::Server => {
                    extension_of_functions(facts, &file.ast, &module, &mut errors, &mut warnings)
                }
                Vocabulary::Test => Extension {
                    name: facts.name,
                    version: facts.version,
                    description: facts.description,
                    tools: Vec::new(),
                    capabilities: facts.capabilities,
                },
            }
        }
        (None, None) => return Err(errors),
    };
    duplicate_tools(&extension, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    for module in modules {
        dependencies.insert(module.path.as_str().to_owned());
    }
    for module in compiled {
        dependencies.extend(module.reads.iter().cloned());
    }
    let tests =
        if setting.vocabulary == Vocabulary::Test { test_functions(&file.ast, &module) } else { Vec::new() };
    Ok(Loaded { extension, tests, warnings, dependencies, content_hash: hex(&file.key) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn duplicate_tools(extension: &Extension, errors: &mut Vec<ScriptError>) {
    for (index, tool) in extension.tools.iter().enumerate() {
        if let Some(first) = extension.tools[..index].iter().find(|earlier| earlier.name == tool.name) {
            let mut error = ScriptError::new(
                ErrorKind::Declaration,
                format!("two tools are named `{}`; the first is at {}", tool.name, first.location),
            );
            error.location = Some(tool.location.clone());
            errors.push(error);
        }
    }
}

fn frozen_handlers(module: &FrozenModule) -> Vec<Handler> {
    let Some(list) = module.owned_extra_value() else { return Vec::new() };
    let count = ListRef::from_value(list.value()).map_or(0, |list| list.len());
    (0..count)
        .map(|index| {
            let function = list.map(|list| {
                let items =
                    ListRef::from_frozen_value(list).unwrap_or_else(|| unreachable!("we put a list there"));
                items.content()[index].unpack_frozen().unwrap_or_else(|| unreachable!("the list is frozen"))
            });
            Handler { function, convention: Convention::Dict, wraps_result: false }
        })
        .collect()
}

fn test_functions(ast: &AstModule, module: &FrozenModule) -> Vec<TestFunction> {
    crate::functions::defined_functions(ast)
        .into_iter()
        .filter(|(name, _)| name.starts_with("test_"))
        .filter_map(|(name, span)| {
            let function = module.get_option(&name).ok()??;
            let handler = Handler { function, convention: Convention::Nothing, wraps_result: false };
            Some(TestFunction { name, handler, location: locate(&span).0 })
        })
        .collect()
}

/// Where to point for a declaration that has no place of its own.
fn describe_span(ast: &AstModule) -> FileSpan {
    crate::functions::defined_functions(ast)
        .into_iter()
        .find(|(name, _)| name == "describe_extension")
        .map(|(_, span)| span)
        .unwrap_or_else(|| ast.file_span(ast.statement().span))
}

/// Runs a file's top level and freezes what it made. `finish` sees it just before.
fn evaluate<T>(
    file: &PlannedFile,
    compiled: &[Compiled],
    setting: &Setting,
    finish: impl for<'v> FnOnce(&Module<'v>, &mut Evaluator<'v, '_, '_>, &Context) -> Result<T, ScriptError>,
) -> Result<(T, FrozenModule, BTreeSet<String>), ScriptError> {
    let watch = Watch::new(setting.limits, &setting.stop);
    let current = watch.make_current();
    let result = contain_panics(|| {
        let ast = guarded(&file.ast, &file.display, &file.source)?;
        let modules: HashMap<&str, &FrozenModule> =
            file.loads.iter().map(|(text, index)| (text.as_str(), &compiled[*index].module)).collect();
        let loader = ReturnFileLoader { modules: &modules };
        let recorder = ReadRecorder { host: setting.host, reads: Mutex::default() };
        let context = Context::new(&recorder, watch.clone());
        let (finished, module) = Module::with_temp_heap(|module| {
            let finished = {
                let mut eval = Evaluator::new(&module);
                watch
                    .install(&mut eval, setting.host)
                    .map_err(|error| ScriptError::new(ErrorKind::Runtime, error.to_string()))?;
                eval.set_loader(&loader);
                eval.set_print_handler(&PrintToLog);
                eval.extra = Some(&context);
                let outcome = eval.eval_module(ast, setting.globals);
                let stopped = watch.check_with(&eval);
                outcome.map_err(|error| ScriptError::from_starlark(error, Some(&watch)))?;
                if let Some(reason) = stopped {
                    return Err(ScriptError::stopped(reason));
                }
                finish(&module, &mut eval, &context)?
            };
            let frozen = module.freeze().map_err(|error| {
                ScriptError::new(ErrorKind::Runtime, starlark::Error::from(error).to_string())
            })?;
            Ok((finished, frozen))
        })?;
        drop(context);
        let reads = recorder.reads.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((finished, module, reads))
    });
    drop(current);
    result
}

/// Notes which data files a module is made from.
struct ReadRecorder<'a> {
    host: &'a dyn Host,
    reads: Mutex<BTreeSet<String>>,
}

impl Host for ReadRecorder<'_> {
    fn perform(&self, effect: crate::Effect) -> Result<Json, crate::EffectError> {
        if let crate::Effect::ReadData { path } = &effect
            && let Some(path) = ModulePath::new(path)
        {
            self.reads.lock().unwrap_or_else(PoisonError::into_inner).insert(path.0);
        }
        self.host.perform(effect)
    }
}
