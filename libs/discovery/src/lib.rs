//! Where other processes are: entries of a configured list become addresses `host:port`.
//!
//! An entry is one of
//!
//! | entry | addresses |
//! | --- | --- |
//! | `host:port`, `[::1]:port` | itself |
//! | `n[0,3-5],gpu[001-004]:7402` | a SLURM host list; a host without a port takes the next one's |
//! | `dns:name:port` | every A and AAAA record of the name |
//! | `slices:namespace/service:port` | ready pods of a Service of Kubernetes; a port or its name |
//! | `file:/path` | one address or host list a line; `#` begins a comment |
//!
//! ```
//! let mut places = headwater_discovery::Places::parse(&["n[08-10]:7402"]).unwrap();
//! assert_eq!(places.look().addresses, ["n08:7402", "n09:7402", "n10:7402"]);
//! ```
//!
//! Deliberately absent: async code, threads and clocks (callers decide when to look again, and
//! off which thread), connections, any judgement of whether somebody listens there.
#![forbid(unsafe_code)]

mod address;
mod entry;
mod error;
mod followed;
mod hostlist;
mod places;

pub use error::DiscoveryError;
pub use hostlist::{HOSTS_MAX, expand, split_list};
pub use places::{Places, Sight};
