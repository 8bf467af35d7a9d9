use starloom_effects::CapabilityMode;
use starloom_engine::{Effect, Json};

use crate::world::{Allowed, World};

fn get(name: &str) -> Effect {
    Effect::Env { name: name.to_owned() }
}

/// The process has `PATH` and, from cargo, `CARGO_PKG_NAME`; the operator gives two of his own.
fn world(mode: CapabilityMode, allowed: Allowed) -> World {
    let mut world = World::new();
    world.set_env(&[("STARLOOM_REGION", "eu"), ("CARGO_PKG_NAME", "given")]);
    world.grants.mode = mode;
    world.grants.capabilities.env = allowed.map(|names| names.iter().map(|name| name.to_string()).collect());
    world
}

#[test]
fn visibility() {
    use CapabilityMode::{Declared, Strict};
    let undeclared = "Environment variable 'PATH' cannot be read: no allowed_env configured for this extension and capabilities are strict. Add allowed_env=['PATH'] to the Extension definition.";
    let not_in_list = "Environment variable 'PATH' is not in allowed_env. Allowed variables: [\"CARGO_*\"]";
    let path = std::env::var("PATH").unwrap();
    let cases: [(CapabilityMode, Allowed, &str, Result<Json, &str>); 12] = [
        (Declared, None, "PATH", Ok(Json::from(path.as_str()))),
        (Declared, None, "CARGO_PKG_NAME", Ok(Json::from("given"))),
        (Declared, None, "STARLOOM_NO_SUCH_VARIABLE", Ok(Json::Null)),
        (Declared, None, "", Ok(Json::Null)),
        (Declared, None, "A=B", Ok(Json::Null)),
        (Declared, None, "A\0", Ok(Json::Null)),
        (Declared, Some(&["CARGO_*"]), "CARGO_PKG_NAME", Ok(Json::from("given"))),
        (Declared, Some(&["CARGO_*"]), "PATH", Err(not_in_list)),
        (Strict, None, "PATH", Err(undeclared)),
        (Strict, None, "STARLOOM_REGION", Ok(Json::from("eu"))),
        (Strict, Some(&["PATH"]), "PATH", Ok(Json::from(path.as_str()))),
        (Strict, Some(&["CARGO_*"]), "PATH", Err(not_in_list)),
    ];
    for (mode, allowed, name, expected) in cases {
        let world = world(mode, allowed);
        match expected {
            Ok(value) => assert_eq!(world.ok(get(name)), value, "{mode:?} {allowed:?} {name}"),
            Err(message) => assert_eq!(world.error(get(name)), message),
        }
    }
}

/// The prefix is for what the operator gives, not for what the process happens to have.
#[test]
fn strict_hides_operator_variables_of_the_process() {
    let mut world = world(CapabilityMode::Strict, None);
    world.set_env(&[]);
    assert!(world.error(get("STARLOOM_REGION")).contains("allowed_env"));
}

#[test]
fn all_gives_only_what_is_visible() {
    let all = world(CapabilityMode::Strict, Some(&["STARLOOM_*", "CARGO_PKG_NAME"])).ok(Effect::EnvAll);
    let names: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert!(names.contains(&&"STARLOOM_REGION".to_owned()));
    assert!(!names.contains(&&"PATH".to_owned()));
    assert_eq!(all["CARGO_PKG_NAME"], "given");
    assert!(names.is_sorted());

    let all = world(CapabilityMode::Declared, None).ok(Effect::EnvAll);
    assert_eq!(all["PATH"], std::env::var("PATH").unwrap());
}
