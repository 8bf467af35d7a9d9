//! Names to addresses, minus those that are refused.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::hosts::{HostPermit, is_special_address};

/// Looks names up each time: what a name stands for may change between two connections.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    known: Arc<BTreeMap<String, Vec<IpAddr>>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("could not resolve '{name}': {reason}")]
    Unknown { name: String, reason: String },
    #[error(
        "'{name}' resolves to the link-local or cloud metadata address {address}: refused unless allowed_hosts names it"
    )]
    Refused { name: String, address: IpAddr },
}

impl Resolver {
    pub(crate) fn new(known: BTreeMap<String, Vec<IpAddr>>) -> Resolver {
        Resolver { known: Arc::new(known) }
    }

    pub(crate) async fn lookup(&self, name: &str, permit: HostPermit) -> Result<Vec<IpAddr>, ResolveError> {
        let found: Vec<IpAddr> = match self.known.get(name.trim_end_matches('.')) {
            Some(addresses) => addresses.clone(),
            None => tokio::net::lookup_host((name, 0))
                .await
                .map_err(|error| ResolveError::Unknown { name: name.to_owned(), reason: error.to_string() })?
                .map(|address| address.ip())
                .collect(),
        };
        let refused = found.iter().copied().find(|address| is_special_address(*address));
        let allowed: Vec<IpAddr> = found
            .into_iter()
            .filter(|address| permit == HostPermit::Named || !is_special_address(*address))
            .collect();
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(address)) => Err(ResolveError::Refused { name: name.to_owned(), address }),
            (true, None) => {
                Err(ResolveError::Unknown { name: name.to_owned(), reason: "no addresses".to_owned() })
            }
        }
    }
}

/// A [`Resolver`] as reqwest wants it. The port is filled in by the caller.
pub(crate) struct HttpResolver {
    pub(crate) resolver: Resolver,
    pub(crate) permit: HostPermit,
}

impl reqwest::dns::Resolve for HttpResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let (resolver, permit) = (self.resolver.clone(), self.permit);
        Box::pin(async move {
            let addresses = resolver.lookup(name.as_str(), permit).await?;
            let addresses: reqwest::dns::Addrs =
                Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
