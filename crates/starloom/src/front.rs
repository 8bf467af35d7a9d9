//! Where clients come in: decodes messages, knows the protocol's eras, turns results into wire form.
//!
//! The protocol is spoken here and nowhere else. docs/design/0001 says why it is our own.

mod era;
pub mod http;
mod peer;
pub mod rpc;
pub mod stdio;

pub use era::{LEGACY_VERSIONS, MODERN_VERSIONS};
pub use peer::Peer;
