//! Skills: folders with instructions and files that a server offers to agents (SEP-2640).
//!
//! A skill is a folder with a `SKILL.md`: YAML frontmatter with `name` and `description`, then text
//! for a model, which may refer to other files of the folder. The format is that of
//! [Agent Skills](https://agentskills.io/specification).
//!
//! # Offer a folder of skills
//!
//! ```no_run
//! # #[cfg(unix)]
//! # fn main() -> Result<(), tinymcp::Error> {
//! use tinymcp::Server;
//! use tinymcp::skills::SkillFolder;
//!
//! let mut server = Server::new("board", "1.0.0");
//! server.skills(SkillFolder::new("/usr/share/board/skills"))?;
//! server.serve_stdio()
//! # }
//! # #[cfg(not(unix))]
//! # fn main() {}
//! ```
//!
//! # Load a skill
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # fn main() -> Result<(), tinymcp::Error> {
//! use std::process::Command;
//! use tinymcp::Client;
//!
//! let client = Client::spawn(Command::new("board_server"))?;
//! // The entries are enough to show the skills; no file is read before it is needed.
//! for skill in client.skills()? {
//!     println!("{}: {}", skill.uri, skill.description);
//! }
//! let skill = client.skill("skill://calibration/SKILL.md")?;
//! println!("{}", client.load_skill(&skill)?);
//! let table = client.read_skill_file(&skill, "references/TABLE.md")?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "client"))]
//! # fn main() {}
//! ```
//!
//! The page [`extensions`](crate::manual::extensions) of the manual has the rules for folders and
//! for hosts.
//!
//! Source: SEP-2640; the extension `io.modelcontextprotocol/skills`.

#[cfg(unix)]
mod catalog;
#[cfg(feature = "client")]
mod client;
#[cfg(unix)]
mod files;
#[cfg_attr(not(unix), allow(dead_code))] // Servers offer skills on Unix only.
mod frontmatter;
#[cfg(unix)]
mod server;
#[cfg(feature = "client")]
mod verify;

#[cfg(unix)]
pub use self::server::SkillFolder;
pub use crate::model::skill::{Skill, SkillFile};
