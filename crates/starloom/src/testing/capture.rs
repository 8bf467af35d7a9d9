//! The server's own log during a test: why a tool failed, what a file printed while it loaded.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value as Json;
use starloom_engine::JsonObject;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::event::LogLine;
use super::world::World;

/// Runs `work`, with what it logs on this thread going to the test's report rather than to stderr.
pub fn captured<T>(world: &Arc<World>, work: impl FnOnce() -> T) -> T {
    let layer = Capture { world: world.clone() }.with_filter(LevelFilter::INFO);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work)
}

struct Capture {
    world: Arc<World>,
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "info",
        };
        self.world.log(LogLine { level: level.to_owned(), message: words.message, fields: words.fields });
    }
}

#[derive(Default)]
struct Words {
    message: String,
    fields: JsonObject,
}

impl Words {
    fn record(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            _ if text.is_empty() => {}
            name => {
                self.fields.insert(name.to_owned(), Json::String(text));
            }
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.record(field, text);
    }
}
