//! Configuration file of the servers when the command line names none.

use std::env;
use std::path::{Path, PathBuf};

/// The files in a folder, in the order in which they are tried.
const LOCAL: [&str; 2] = [".mcp.json", ".vscode/mcp.json"];
/// The user's file, below the folder of configurations.
const OWN: &str = "tinymcp/mcp.json";

/// Returns the first of these files that exists: `$TINYMCP_CONFIG`, `.mcp.json` and
/// `.vscode/mcp.json` in the current folder and in each folder above it up to the home folder,
/// `~/.config/tinymcp/mcp.json`. The variable also names a file that is missing, so that its reader
/// reports it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = |variable: &str| env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    // Windows has the second variable only.
    let home = path("HOME").or_else(|| path("USERPROFILE"));
    let folder = path("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    // The current folder is without symbolic links.
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    let parents = env::current_dir().map_or(Vec::new(), |current| parents(&current, home.as_deref()));
    first(path("TINYMCP_CONFIG"), &parents, folder, &|path| path.is_file())
}

/// Returns the folders above this one, up to the home folder or the root.
fn parents(folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let below_home = folder.ancestors().take_while(|folder| Some(*folder) != home).count();
    folder.ancestors().take(below_home + 1).skip(1).map(Path::to_owned).collect()
}

/// Returns whether a file above the current folder has its owner, or belongs to root: in `/tmp`,
/// everybody can write a file that names programs to start.
#[cfg(unix)]
fn is_trusted(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| path.metadata().ok().map(|metadata| metadata.uid());
    owner(file).is_some_and(|uid| uid == 0 || Some(uid) == owner(Path::new(".")))
}

#[cfg(not(unix))]
fn is_trusted(_: &Path) -> bool {
    true
}

fn first(
    chosen: Option<PathBuf>,
    parents: &[PathBuf],
    folder: Option<PathBuf>,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let above = parents.iter().flat_map(|parent| LOCAL.map(|file| parent.join(file)));
    let above = above.filter(|file| is_trusted(file));
    let own = folder.map(|folder| folder.join(OWN));
    chosen.or_else(|| LOCAL.iter().map(PathBuf::from).chain(above).chain(own).find(|path| exists(path)))
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
            let found = first(None, &[], folder(), &|path| rest.iter().any(|known| path == Path::new(known)));
            assert_eq!(found.as_deref(), Some(Path::new(expected)));
        }
        assert_eq!(first(None, &[], folder(), &|_| false), None);
        assert_eq!(first(None, &[], None, &|_| false), None);
        assert_eq!(first(Some("missing".into()), &[], folder(), &|_| true), Some("missing".into()));
    }

    #[cfg(unix)] // Has paths of Unix.
    #[test]
    fn the_search_ends_at_the_home_folder_or_the_root() {
        let home = Some(Path::new("/home/x"));
        for (folder, home, expected) in [
            ("/home/x/a/b", home, &["/home/x/a", "/home/x"][..]),
            ("/home/x/a", home, &["/home/x"]),
            ("/home/x", home, &[]),
            ("/home", home, &["/"]),
            ("/srv/a", home, &["/srv", "/"]),
            ("/srv/a", None, &["/srv", "/"]),
            ("/", home, &[]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(parents(Path::new(folder), home), expected, "{folder}");
        }
    }

    #[cfg(unix)] // Files have owners.
    #[test]
    fn a_file_above_must_have_the_owner_of_the_folder_or_root() {
        assert!(is_trusted(Path::new("Cargo.toml")) && is_trusted(Path::new("/")));
        assert!(!is_trusted(Path::new("missing")));
    }
}
