use std::time::{Duration, Instant};

use starloom_engine::{Effect, EffectError, Json};

use crate::world::World;

#[test]
fn now_is_the_system_clock() {
    let now = World::new().ok(Effect::Now);
    let seconds = now["seconds"].as_u64().unwrap();
    let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(system - seconds < 5);
    assert!(now["nanoseconds"].as_u64().unwrap() < 1_000_000_000);
}

#[test]
fn monotonic_grows() {
    let world = World::new();
    let first = world.ok(Effect::Monotonic).as_u64().unwrap();
    assert!(world.ok(Effect::Monotonic).as_u64().unwrap() >= first);
}

#[test]
fn sleep_waits() {
    let started = Instant::now();
    assert_eq!(World::new().ok(Effect::Sleep { seconds: 0.05 }), Json::Null);
    assert!(started.elapsed() >= Duration::from_millis(50));
}

/// The server calls from its own threads, having told tokio that they may block.
#[test]
fn effects_work_on_the_runtimes_own_threads() {
    let world = std::sync::Arc::new(World::new());
    let inner = std::sync::Arc::clone(&world);
    let task = world.runtime.spawn(async move {
        tokio::task::block_in_place(|| inner.ok(Effect::Sleep { seconds: 0.01 }));
        // Given back: the last owner ends the runtime, which cannot be done from inside it.
        inner
    });
    drop(world.runtime.block_on(task).unwrap());
}

#[test]
fn sleep_refuses_nonsense() {
    let world = World::new();
    assert_eq!(world.error(Effect::Sleep { seconds: -1.0 }), "cannot sleep for -1 seconds");
    assert_eq!(world.error(Effect::Sleep { seconds: f64::NAN }), "cannot sleep for NaN seconds");
    assert_eq!(world.error(Effect::Sleep { seconds: f64::INFINITY }), "cannot sleep for inf seconds");
}

#[test]
fn sleep_ends_when_cancelled() {
    World::new().cancel_when(Effect::Sleep { seconds: 1e300 }, || {});
}

#[test]
fn sleep_ends_at_the_deadline() {
    World::new().stopped_at_deadline(Effect::Sleep { seconds: 60.0 });
}

#[test]
fn a_moved_deadline_holds() {
    let mut world = World::new();
    world.stop = starloom_engine::Stop::after(Duration::from_millis(100));
    world.stop.extend(Duration::from_secs(60));
    assert_eq!(world.ok(Effect::Sleep { seconds: 0.15 }), Json::Null);
}

#[test]
fn a_stopped_call_performs_nothing() {
    let world = World::new();
    world.stop.cancel();
    assert!(matches!(world.perform(Effect::Now), Err(EffectError::Stopped)));
}

/// Sleeping takes a thread, but no processor.
#[test]
fn a_thousand_sleep_at_once() {
    let world = World::new();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..1000 {
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn_scoped(scope, || world.ok(Effect::Sleep { seconds: 0.5 }))
                .unwrap();
        }
    });
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn random_bytes() {
    let world = World::new();
    assert_eq!(world.ok(Effect::RandomBytes { count: 0 }), Json::from(""));
    let first = world.ok(Effect::RandomBytes { count: 16 });
    assert_eq!(first.as_str().unwrap().len(), 24);
    assert_ne!(first, world.ok(Effect::RandomBytes { count: 16 }));
    assert!(world.ok(Effect::RandomBytes { count: 1 << 20 }).is_string());
    assert_eq!(
        world.error(Effect::RandomBytes { count: (1 << 20) + 1 }),
        "at most 1048576 random bytes at a time, not 1048577"
    );
}

#[test]
fn what_is_the_servers_business_is_refused() {
    let world = World::new();
    for (effect, message) in [
        (Effect::NotifyChanged { what: "tools".into() }, "`notify_changed` is not available here"),
        (
            Effect::CallTool { name: "t".into(), arguments: Default::default(), timeout: None },
            "`call_tool` is not available here",
        ),
    ] {
        assert_eq!(world.error(effect), message);
    }
}
