//! `idle-rss`: what a server that nobody calls costs.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::report::Finding;
use super::statistics::show_megabytes;

pub fn idle(bench: &Bench) -> Result<Finding> {
    let servers =
        [bench.starloom_eleven(), bench.peers.rmcp()?, bench.peers.typescript()?, bench.peers.fastmcp()?];
    let mut sizes = Vec::new();
    for server in &servers {
        let mut client = server.spawn()?;
        client.initialize()?;
        thread::sleep(Duration::from_secs(2));
        sizes.push(client.memory("VmRSS")?);
    }
    let ratio = sizes[0] as f64 / sizes[1] as f64;
    let shown: Vec<String> = sizes.iter().copied().map(show_megabytes).collect();
    Ok(Finding::against_rmcp(&servers, &shown, ratio, sizes[0] <= 20_000_000))
}
