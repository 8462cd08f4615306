//! Attempts to leave the folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::super::board::Scratch;
use super::Folder;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Folder `inside`, with secret files beside it.
fn fixture() -> (Scratch, Folder, PathBuf) {
    let scratch = Scratch::new().unwrap();
    let root = scratch.path().join("inside");
    let folder = Folder::open(&root).unwrap();
    fs::create_dir_all(scratch.path().join("inside2")).unwrap();
    fs::write(scratch.path().join("secret.txt"), "secret").unwrap();
    fs::write(scratch.path().join("inside2/secret.txt"), "secret").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/real.txt"), "real").unwrap();
    (scratch, folder, root)
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let (scratch, folder, root) = fixture();
    let out = scratch.path();
    symlink(out.join("secret.txt"), root.join("leaf")).unwrap();
    symlink("../secret.txt", root.join("relative")).unwrap();
    symlink("../../secret.txt", root.join("sub/relative")).unwrap();
    symlink(out.join("not-there.txt"), root.join("dangling")).unwrap();
    symlink("no-such-name", root.join("dangling-inside")).unwrap();
    symlink(out, root.join("folder")).unwrap();
    symlink(out.join("inside2"), root.join("neighbour")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("/proc/self/cwd", root.join("process")).unwrap();
    let absolute = out.join("secret.txt");
    for path in [
        "",
        ".",
        "..",
        "/",
        "../secret.txt",
        "sub/../../secret.txt",
        "../inside/readme.txt",
        "../inside2/secret.txt",
        absolute.to_str().unwrap(),
        "/etc/hostname",
        "leaf",
        "relative",
        "sub/relative",
        "dangling",
        "dangling-inside",
        "folder",
        "folder/secret.txt",
        "folder/new.txt",
        "folder/new/deep.txt",
        "folder/inside/../secret.txt",
        "neighbour/secret.txt",
        "loop",
        "loop/x",
        "process/Cargo.toml",
        "nul\0byte",
        "readme.txt/below",
    ] {
        assert!(folder.read(path).is_err(), "read {path:?}");
        assert!(folder.write(path, "gotcha").is_err(), "wrote {path:?}");
    }
    assert_eq!(fs::read_to_string(out.join("secret.txt")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(out.join("inside2/secret.txt")).unwrap(), "secret");
    let mut beside: Vec<_> =
        fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    beside.sort();
    assert_eq!(beside, ["inside", "inside2", "secret.txt"], "nothing new outside");
}

#[test]
fn links_that_stay_inside_work() {
    let (_scratch, folder, root) = fixture();
    symlink("sub/real.txt", root.join("link")).unwrap();
    symlink(root.join("sub"), root.join("shortcut")).unwrap();
    symlink("../sub", root.join("sub/again")).unwrap();
    for path in ["link", "shortcut/real.txt", "sub/again/again/real.txt", "./sub//./real.txt"] {
        assert_eq!(folder.read(path).unwrap(), b"real", "{path}");
    }
    for (n, path) in ["link", "shortcut/real.txt", "sub/again/real.txt"].into_iter().enumerate() {
        folder.write(path, &n.to_string()).unwrap();
        assert_eq!(fs::read_to_string(root.join("sub/real.txt")).unwrap(), n.to_string(), "{path}");
    }
    assert!(fs::symlink_metadata(root.join("link")).unwrap().is_symlink(), "the link is still one");
    folder.write("shortcut/deep/er/new.txt", "new").unwrap();
    assert_eq!(fs::read_to_string(root.join("sub/deep/er/new.txt")).unwrap(), "new");
}

#[test]
fn only_ordinary_files_of_moderate_size_are_read() {
    let (_scratch, folder, root) = fixture();
    fs::write(root.join("most"), vec![b'x'; 1 << 20]).unwrap();
    fs::write(root.join("more"), vec![b'x'; (1 << 20) + 1]).unwrap();
    assert_eq!(folder.read("most").unwrap().len(), 1 << 20);
    assert_eq!(folder.read("more").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(folder.read("sub").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(pipe.success());
    assert_eq!(folder.read("pipe").unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_link_that_is_exchanged_during_use_is_rejected() {
    let (scratch, folder, root) = fixture();
    fs::write(root.join("sub/secret.txt"), "harmless").unwrap();
    symlink("sub", root.join("flip")).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let flipper = {
        let (done, targets) = (Arc::clone(&done), [scratch.path().to_owned(), root.join("sub")]);
        thread::spawn(move || {
            for target in targets.iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                symlink(target, root.join("next")).unwrap();
                fs::rename(root.join("next"), root.join("flip")).unwrap();
            }
        })
    };
    let (started, mut inside, mut refused) = (Instant::now(), 0, 0);
    while inside < 500 || refused < 500 || inside + refused < 10_000 {
        assert!(started.elapsed() < TIMEOUT, "one of the two never happened: {inside}, {refused}");
        match folder.read("flip/secret.txt") {
            Ok(bytes) => {
                assert_eq!(bytes, b"harmless");
                inside += 1;
            }
            Err(_) => refused += 1,
        }
        // Writing waits for the disk, so less often.
        if (inside + refused) % 500 == 0 {
            let _ = folder.write("flip/secret.txt", "harmless");
        }
    }
    done.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
    assert_eq!(fs::read_to_string(scratch.path().join("secret.txt")).unwrap(), "secret");
    assert!(fs::read_dir(scratch.path()).unwrap().count() == 3, "nothing new outside");
}

/// Reads `name` while another thread replaces it alternately by the two entries that `make` creates.
fn read_while_swapped(root: &Path, folder: &Folder, name: &str, make: impl Fn(&Path, bool) + Send + 'static) {
    let done = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (done, root, name) = (Arc::clone(&done), root.to_owned(), name.to_owned());
        thread::spawn(move || {
            let mut regular = false;
            while !done.load(Ordering::Relaxed) {
                make(&root.join("next"), regular);
                fs::rename(root.join("next"), root.join(&name)).unwrap();
                regular = !regular;
            }
        })
    };
    let (started, mut read, mut refused) = (Instant::now(), 0, 0);
    while read < 500 || refused < 500 {
        assert!(started.elapsed() < TIMEOUT, "one of the two never happened: {read}, {refused}");
        match folder.read(name) {
            Ok(bytes) => {
                assert_eq!(bytes, b"regular");
                read += 1;
            }
            Err(_) => refused += 1,
        }
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
}

#[test]
fn a_file_swapped_for_a_fifo_does_not_block_a_read() {
    let (_scratch, folder, root) = fixture();
    let fifo = root.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        read_while_swapped(&root, &folder, "swapped", move |next, regular| {
            if regular {
                fs::write(next, "regular").unwrap();
            } else {
                fs::hard_link(&fifo, next).unwrap();
            }
        });
        sender.send(()).unwrap();
    });
    // A read that blocks in `open` never returns, so this thread watches the time.
    receiver.recv_timeout(2 * TIMEOUT).expect("a read blocks");
}

#[test]
fn a_file_swapped_for_a_link_is_rejected() {
    let (scratch, folder, root) = fixture();
    let secret = scratch.path().join("secret.txt");
    read_while_swapped(&root, &folder, "swapped", move |next, regular| {
        if regular {
            fs::write(next, "regular").unwrap();
        } else {
            symlink(&secret, next).unwrap();
        }
    });
}
