//! Configuration file of the servers when the command line names none.

use std::env;
use std::path::{Path, PathBuf};

/// The files in the current folder, in the order in which they are tried.
const LOCAL: [&str; 2] = [".mcp.json", ".vscode/mcp.json"];
/// The user's file, below the folder of configurations.
const OWN: &str = "tinymcp/mcp.json";

/// Returns the first of these files that exists: `$TINYMCP_CONFIG`, `./.mcp.json`,
/// `./.vscode/mcp.json`, `~/.config/tinymcp/mcp.json`. The variable also names a file that is
/// missing, so that its reader reports it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = |variable: &str| env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    // Windows has the second variable only.
    let home = || path("HOME").or_else(|| path("USERPROFILE"));
    let folder = path("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")));
    first(path("TINYMCP_CONFIG"), folder, &|path| path.is_file())
}

fn first(
    chosen: Option<PathBuf>,
    folder: Option<PathBuf>,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let own = folder.map(|folder| folder.join(OWN));
    chosen.or_else(|| LOCAL.iter().map(PathBuf::from).chain(own).find(|path| exists(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_that_exists_is_used() {
        let all = [".mcp.json", ".vscode/mcp.json", "/home/x/.config/tinymcp/mcp.json"];
        let folder = || Some(PathBuf::from("/home/x/.config"));
        for (at, expected) in all.iter().enumerate() {
            let rest = &all[at..];
            let found = first(None, folder(), &|path| rest.iter().any(|known| path == Path::new(known)));
            assert_eq!(found.as_deref(), Some(Path::new(expected)));
        }
        assert_eq!(first(None, folder(), &|_| false), None);
        assert_eq!(first(None, None, &|_| false), None);
        assert_eq!(first(Some("missing".into()), folder(), &|_| true), Some("missing".into()));
    }
}
