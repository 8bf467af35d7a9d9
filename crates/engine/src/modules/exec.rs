//! `exec`: other programs, as far as the extension declares them.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::float::UnpackFloat;
use starlark::values::none::NoneOr;
use starloom_builtins_macro::builtins;

use crate::builtins::printable;
use crate::context::perform_value;
use crate::effect::{Effect, ExecRequest};

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// Runs a command and returns `{"stdout", "stderr", "exit_code", "success", "timed_out"}`.
    ///
    /// The command must be in the extension's `allowed_exec`. No shell is involved.
    ///
    /// Args:
    ///     command: a name on PATH, or a path
    ///     args: list of arguments; anything that is not a string is written as one
    ///     cwd: folder to run in
    ///     env: dict of variables to add
    ///     stdin: text for its standard input; without it there is none
    ///     timeout: seconds, after which it and its children are ended
    fn run<'v>(
        command: &str,
        args: Option<Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] cwd: NoneOr<&str>,
        #[starlark(require = named, default = SmallMap::new())] env: SmallMap<String, Value<'v>>,
        #[starlark(require = named, default = NoneOr::None)] stdin: NoneOr<&str>,
        #[starlark(require = named, default = NoneOr::None)] timeout: NoneOr<UnpackFloat>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let mut texts = Vec::new();
        if let Some(args) = args.filter(|args| !args.is_none()) {
            let items = args
                .iterate(eval.heap())
                .map_err(|_| anyhow::anyhow!("exec.run: args must be a list, got: {}", args.get_type()))?;
            for item in items {
                texts.push(printable(item)?);
            }
        }
        let mut variables = Vec::with_capacity(env.len());
        for (name, value) in env {
            variables.push((name, printable(value)?));
        }
        let request = ExecRequest {
            command: command.to_owned(),
            args: texts,
            cwd: cwd.into_option().map(str::to_owned),
            env: variables,
            stdin: stdin.into_option().map(str::to_owned),
            timeout: timeout.into_option().map(|seconds| seconds.0),
        };
        perform_value(eval, Effect::Exec(request))
    }
}
