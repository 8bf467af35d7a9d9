//! Which hosts a source may reach, and the addresses nobody reaches by accident.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::grants::{CapabilityMode, Denied, Grants};

/// Names under which clouds serve credentials to whoever asks from inside.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];

/// Metadata services outside the link-local ranges: Alibaba, Azure, Oracle; AWS and Google over IPv6.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// How far a permission to reach a host goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HostPermit {
    /// Anywhere but link-local and metadata addresses.
    Ordinary,
    /// `allowed_hosts` has this very name or address, so it may also be one of those.
    Named,
}

impl Grants {
    /// `host` is a name, an address without brackets, or the folder of a Unix socket.
    pub(crate) fn check_host(&self, host: &str, port: u16) -> Result<HostPermit, Denied> {
        let host = normal(host);
        let permit = match (&self.capabilities.hosts, self.mode) {
            (None, CapabilityMode::Declared) => HostPermit::Ordinary,
            (None, CapabilityMode::Strict) => return Err(Denied::HostUndeclared { host }),
            (Some(allowed), _) => {
                let permits = allowed.iter().filter_map(|entry| permit_by(entry, &host, port));
                match permits.max_by_key(|permit| *permit == HostPermit::Named) {
                    Some(permit) => permit,
                    None => return Err(Denied::Host { host, allowed: allowed.clone() }),
                }
            }
        };
        if permit == HostPermit::Ordinary && is_special_host(&host) {
            return Err(Denied::SpecialHost { host });
        }
        Ok(permit)
    }
}

fn is_special_host(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => is_special_address(address),
        Err(_) => METADATA_NAMES.contains(&host),
    }
}

/// Link-local, or a cloud's metadata service. Private and loopback addresses are not: local services
/// are what people use.
pub(crate) fn is_special_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || METADATA_V6.contains(&address)
                || embedded_v4(address).is_some_and(is_special_v4)
        }
    }
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || METADATA_V4.contains(&address)
}

/// The IPv4 address a mapped, compatible, NAT64 or 6to4 address stands for.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => from(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

/// Whether one entry of `allowed_hosts` covers the host: `name`, `name:port`, `*.name`, `*`.
fn permit_by(entry: &str, host: &str, port: u16) -> Option<HostPermit> {
    let (pattern, wanted_port) = split_port(entry.trim())?;
    if wanted_port.is_some_and(|wanted| wanted != port) {
        return None;
    }
    if pattern == "*" {
        return Some(HostPermit::Ordinary);
    }
    if let Some(parent) = pattern.strip_prefix("*.") {
        let below = host.strip_suffix(&normal(parent))?;
        return (below.len() > 1 && below.ends_with('.')).then_some(HostPermit::Ordinary);
    }
    (normal(pattern) == host).then_some(HostPermit::Named)
}

/// `None` when what follows the colon is no port.
fn split_port(entry: &str) -> Option<(&str, Option<u16>)> {
    if entry.starts_with('/') {
        return Some((entry, None));
    }
    if let Some(rest) = entry.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((address, Some(port.parse().ok()?))),
            None => after.is_empty().then_some((address, None)),
        };
    }
    match entry.split_once(':') {
        // More than one colon is a bare IPv6 address.
        Some((host, port)) if !port.contains(':') => Some((host, Some(port.parse().ok()?))),
        _ => Some((entry, None)),
    }
}

/// One spelling per host: lower case, ASCII, addresses in their shortest form, no final dot.
fn normal(host: &str) -> String {
    if host.starts_with('/') {
        return host.to_owned();
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.to_string();
    }
    match url::Host::parse(bare) {
        Ok(url::Host::Ipv4(address)) => address.to_string(),
        Ok(url::Host::Domain(name)) => name,
        _ => bare.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        for (entry, host, port, expected) in [
            ("example.com", "example.com", 443, Some(HostPermit::Named)),
            ("Example.COM.", "example.com", 443, Some(HostPermit::Named)),
            ("example.com", "www.example.com", 443, None),
            ("example.com:443", "example.com", 443, Some(HostPermit::Named)),
            ("example.com:443", "example.com", 80, None),
            ("example.com:x", "example.com", 80, None),
            ("*.example.com", "a.b.example.com", 80, Some(HostPermit::Ordinary)),
            ("*.example.com", "example.com", 80, None),
            ("*.example.com", "badexample.com", 80, None),
            ("*.example.com", ".example.com", 80, None),
            ("*.example.com:80", "a.example.com", 443, None),
            ("*", "anything", 1, Some(HostPermit::Ordinary)),
            ("münchen.de", "xn--mnchen-3ya.de", 80, Some(HostPermit::Named)),
            ("[::1]:8080", "::1", 8080, Some(HostPermit::Named)),
            ("[::1]:8080", "::1", 8081, None),
            ("::1", "::1", 8081, Some(HostPermit::Named)),
            ("0:0:0:0:0:0:0:1", "::1", 80, Some(HostPermit::Named)),
            ("127.0.0.1", "127.0.0.1", 80, Some(HostPermit::Named)),
            ("/run/postgresql", "/run/postgresql", 5432, Some(HostPermit::Named)),
        ] {
            assert_eq!(permit_by(entry, &normal(host), port), expected, "{entry} {host}:{port}");
        }
    }

    #[test]
    fn special_addresses() {
        for (address, special) in [
            ("169.254.169.254", true),
            ("169.254.0.1", true),
            ("fe80::1", true),
            ("febf::1", true),
            ("fec0::1", false),
            ("fd00:ec2::254", true),
            ("::ffff:169.254.169.254", true),
            ("64:ff9b::a9fe:a9fe", true),
            ("2002:a9fe:a9fe::1", true),
            ("100.100.100.200", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("10.0.0.1", false),
            ("192.168.1.1", false),
            ("fd00::1", false),
            ("8.8.8.8", false),
        ] {
            assert_eq!(is_special_address(address.parse().unwrap()), special, "{address}");
        }
        assert!(is_special_host(&normal("Metadata.Google.Internal.")));
        assert!(is_special_host(&normal("0xA9FEA9FE")));
    }
}
