//! Sandbox of `tinymcp serve`: real programs inside and outside their grants.
//!
//! Each program runs twice with the same grants: on a folder that is granted, where it must succeed,
//! and on an equal folder that is not, where it must fail and change nothing. Programs that are not
//! installed are reported and skipped.
//!
//! Files outside the grants do not exist; without mount namespaces Landlock alone refuses them.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TINYMCP: &str = env!("CARGO_BIN_EXE_tinymcp");

/// Command lines; `@` is the folder.
const PROGRAMS: [&[&str]; 32] = [
    &["cat", "@/file"],
    &["head", "-c", "1", "@/file"],
    &["grep", "-q", "content", "@/file"],
    &["wc", "@/file"],
    &["ls", "@"],
    &["find", "@/folder", "-name", "inner"],
    &["cp", "@/file", "@/copy"],
    &["dd", "if=@/file", "of=@/copy", "status=none"],
    &["ln", "@/file", "@/link"],
    &["ln", "-s", "file", "@/link"],
    &["mv", "@/file", "@/moved"],
    &["mv", "@/file", "@/folder/moved"],
    &["rm", "@/file"],
    &["rmdir", "@/empty"],
    &["mkdir", "@/new"],
    &["mkfifo", "@/new"],
    &["touch", "@/new"],
    &["truncate", "-s", "0", "@/file"],
    &["tee", "@/new"],
    &["install", "-m", "600", "@/file", "@/new"],
    &["sed", "-i", "s/content/changed/", "@/file"],
    &["sort", "-o", "@/file", "@/file"],
    &["tar", "-cf", "@/new.tar", "-C", "@", "file"],
    &["gzip", "@/file"],
    &["sh", "-c", "echo more >> @/file"],
    &["sh", "-c", "read line < @/file"],
    &["sh", "-c", "cd @ && exec 3> file"],
    &["sh", "-c", "exec cat /proc/self/root@/file"],
    &["@/program"],
    &["python3", "-c", "open('@/file').read()"],
    &["python3", "-c", "open('@/new', 'w')"],
    &["perl", "-e", "unlink('@/file') or die"],
];

/// Uses that Landlock does not control.
const HIDDEN: [&[&str]; 3] = [&["chmod", "600", "@/file"], &["touch", "@/file"], &["stat", "@/file"]];

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tinymcp-sandbox-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// An inner folder with the files that the programs use.
    fn filled(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let _ = fs::remove_dir_all(&path);
        for folder in ["folder", "empty"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        fs::write(path.join("file"), "content\n").unwrap();
        fs::write(path.join("folder/inner"), "").unwrap();
        fs::copy("/bin/true", path.join("program")).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program. With `--net`, the test also works on machines without namespaces.
fn sandboxed(options: &[&str], argv: &[&str]) -> Output {
    let without: &[&str] =
        if options.contains(&"--net") && !has_namespaces() { &["--no-namespace", "--no-root"] } else { &[] };
    let mut child = Command::new(TINYMCP)
        .arg("__sandbox")
        .args(options)
        .args(without)
        .arg("--")
        .args(argv)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Programs that do not read end first.
    let _ = child.stdin.take().unwrap().write_all(b"input\n");
    child.wait_with_output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names and contents below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let content = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            found.insert(path.clone(), content);
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

fn exists(program: &str) -> bool {
    program.starts_with('@')
        || ["/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
}

/// Returns whether files can be restricted. If not, checks that the helper refuses to run a program
/// without restrictions unless the server asks for that.
fn kernel_restricts_files() -> bool {
    let output = sandboxed(&["--read", "/", "--net"], &["true"]);
    if output.status.success() {
        return true;
    }
    assert_eq!(stderr(&output), "tinymcp: sandbox: Landlock failed: access to files cannot be restricted\n");
    assert!(sandboxed(&["--read", "/", "--net", "--no-files"], &["true"]).status.success());
    eprintln!("left out: this kernel has no Landlock; checked that the sandbox is an error");
    false
}

fn has_namespaces() -> bool {
    static PROBED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *PROBED.get_or_init(|| sandboxed(&["--probe"], &[]).status.success())
}

/// The same for the network.
fn kernel_isolates_network() -> bool {
    if has_namespaces() {
        return true;
    }
    let output = sandboxed(&["--read", "/"], &["true"]);
    assert!(stderr(&output).starts_with("tinymcp: sandbox: cannot "), "{output:?}");
    eprintln!("left out: namespaces are not available; checked that the sandbox is an error");
    false
}

/// Options with the network granted and, if this kernel can, without.
fn modes() -> Vec<&'static [&'static str]> {
    if kernel_isolates_network() {
        vec![&["--net"], &[]]
    } else {
        vec![&["--net", "--no-namespace", "--no-root"]]
    }
}

#[test]
fn programs_use_files_inside_their_grants_only() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() {
        return;
    }
    let folder = Folder::new("files");
    for mode in modes() {
        let hidden: &[&[&str]] = if has_namespaces() { &HIDDEN } else { &[] };
        for argv in PROGRAMS.iter().chain(hidden) {
            if exists(argv[0]) {
                check_program(&folder, mode, argv);
            } else {
                eprintln!("left out: {} is not installed", argv[0]);
            }
        }
    }
}

fn check_program(folder: &Folder, mode: &[&str], argv: &[&str]) {
    let (inside, outside) = (folder.filled("inside"), folder.filled("outside"));
    let before = contents(&outside);
    let mut options = vec!["--read", "system", "--read", "/proc", "--write", inside.to_str().unwrap()];
    options.extend(mode);
    let run = |target: &Path| {
        let argv: Vec<String> = argv.iter().map(|word| word.replace('@', target.to_str().unwrap())).collect();
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        sandboxed(&options, &argv)
    };
    let refused = run(&outside);
    assert!(!refused.status.success(), "{mode:?} {argv:?} outside: {refused:?}");
    assert_eq!(contents(&outside), before, "{mode:?} {argv:?} changed files outside: {refused:?}");
    let allowed = run(&inside);
    assert!(allowed.status.success(), "{mode:?} {argv:?} inside: {allowed:?}");
}

#[test]
fn read_grants_do_not_cover_changes() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() {
        return;
    }
    let folder = Folder::new("read");
    let inside = folder.filled("inside");
    let path = inside.to_str().unwrap();
    let options = ["--read", "system", "--read", path, "--net"];
    let before = contents(&inside);
    for script in
        ["echo > file", "rm file", "mkdir new", "mv file moved", "ln file new", ": > file", "mkfifo new"]
    {
        let output = sandboxed(&options, &["sh", "-c", &format!("cd {path} && {script}")]);
        assert!(!output.status.success(), "{script}: {output:?}");
    }
    assert_eq!(contents(&inside), before);
    let output =
        sandboxed(&options, &["sh", "-c", &format!("cd {path} && cat file && ls folder && ./program")]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "content\ninner\n");
}

#[test]
fn links_do_not_leave_the_grants() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() {
        return;
    }
    let folder = Folder::new("links");
    let (inside, outside) = (folder.filled("inside"), folder.filled("outside"));
    let (inside, outside) = (inside.to_str().unwrap(), outside.to_str().unwrap());
    let scripts = [
        format!("ln -s {outside}/file l && cat l"),
        format!("ln -s {outside} d && ls d/"),
        format!("ln {outside}/file h && cat h"),
        format!("mv {outside}/file m"),
        format!("mv file {outside}/folder"),
        "cat ../outside/file".to_owned(),
        "cat /proc/self/cwd/../outside/file".to_owned(),
        format!("cat /proc/$PPID/root{outside}/file"),
        "cat /proc/1/environ".to_owned(),
        format!("mount --bind {outside} empty && cat empty/file"),
        "mknod disk b 8 0".to_owned(),
        "mknod memory c 1 1".to_owned(),
    ];
    for mode in modes() {
        let mut options = vec!["--read", "system", "--read", "/proc", "--write", inside];
        options.extend(mode);
        for script in &scripts {
            let output = sandboxed(&options, &["sh", "-c", &format!("cd {inside} && {script}")]);
            assert!(!output.status.success(), "{script}: {output:?}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{script}");
            let _ = fs::remove_file(format!("{inside}/d"));
        }
    }
    fs::remove_file(format!("{inside}/l")).unwrap();
    std::os::unix::fs::symlink(format!("{outside}/file"), format!("{inside}/l")).unwrap();
    // A symbolic link that an earlier call created does not extend a grant.
    let nested = format!("{inside}/l");
    let output =
        sandboxed(&["--read", "system", "--write", inside, "--read", &nested, "--net"], &["cat", &nested]);
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn network_needs_a_grant() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() || !kernel_isolates_network() || !exists("python3") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("tinymcp-sandbox-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let folder = Folder::new("network");
    let path = folder.0.join("socket");
    let _named = UnixListener::bind(&path).unwrap();
    let (tcp, udp) = (listener.local_addr().unwrap().port(), datagrams.local_addr().unwrap().port());
    let scripts = [
        (true, format!("socket.create_connection(('127.0.0.1', {tcp}))")),
        (
            true,
            "socket.create_server(('127.0.0.1', 0)); socket.create_connection(('127.0.0.1', {tcp}))"
                .replace("{tcp}", &tcp.to_string()),
        ),
        (true, format!("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))")),
        (false, format!("socket.socket(socket.AF_UNIX).connect('\\0{name}')")),
        (true, format!("socket.socket(socket.AF_UNIX).connect({path:?})")),
    ];
    for (granted, script) in scripts {
        let script = format!("import socket; {script}");
        let argv = ["python3", "-c", &script];
        let refused = sandboxed(&["--read", "system"], &argv);
        assert!(!refused.status.success(), "{script}: {refused:?}");
        if granted {
            let folder = folder.0.to_str().unwrap();
            let allowed = sandboxed(&["--read", "system", "--write", folder, "--net"], &argv);
            assert!(allowed.status.success(), "{script}: {allowed:?}");
        }
    }
    // The network does not include named sockets outside the grants.
    let script = format!("import socket; socket.socket(socket.AF_UNIX).connect({path:?})");
    let refused = sandboxed(&["--read", "system", "--net"], &["python3", "-c", &script]);
    assert!(!refused.status.success(), "{refused:?}");
    // Between the processes of one sandbox sockets work.
    let script = "import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'";
    let output = sandboxed(&["--read", "system"], &["python3", "-c", script]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn errors_name_the_cause() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() {
        return;
    }
    let error = |options: &[&str], argv: &[&str]| {
        let output = sandboxed(options, argv);
        (output.status.code().unwrap(), stderr(&output))
    };
    let folder = Folder::new("errors");
    let link = folder.0.join("loop");
    std::os::unix::fs::symlink("loop", &link).unwrap();
    for option in ["--read", "--write"] {
        let (code, text) = error(&[option, link.to_str().unwrap(), "--net"], &["true"]);
        let member = option.trim_start_matches('-');
        assert_eq!(code, 126);
        assert!(
            text.starts_with(&format!("tinymcp: sandbox: cannot open {link:?} of \"{member}\": ")),
            "{text}"
        );
    }
    let (code, text) = error(&["--read", "/proc", "--net"], &["true"]);
    // In a root folder of its own the program does not exist.
    assert_eq!(code, if has_namespaces() { 127 } else { 126 });
    assert!(text.contains("cannot execute \"true\": ") && text.contains("add \"system\""), "{text}");
    let (code, text) = error(&["--read", "system", "--net"], &["no-such-program"]);
    assert_eq!(code, 127);
    assert!(text.contains("cannot execute \"no-such-program\": "), "{text}");
    assert_eq!(error(&["--read", "relative"], &["true"]).0, 126);
}

#[test]
fn missing_paths_are_not_granted() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() {
        return;
    }
    let folder = Folder::new("missing");
    let inside = folder.filled("inside");
    let path = |name: &str| inside.join(name).to_str().unwrap().to_owned();
    let (missing, below_file) = (path("missing"), path("file/below"));
    let grants = [
        "--read",
        "system",
        "--read",
        &missing,
        "--read",
        &below_file,
        "--write",
        &missing,
        "--write",
        &below_file,
    ];
    for mode in modes() {
        let options = [&grants[..], mode].concat();
        assert_eq!(sandboxed(&options, &["true"]).status.code(), Some(0), "{mode:?}");
        for argv in [&["touch", &missing][..], &["mkdir", &missing], &["cat", &path("file")]] {
            let output = sandboxed(&options, argv);
            assert!(!output.status.success(), "{mode:?} {argv:?}: {output:?}");
        }
        assert!(!inside.join("missing").exists());
    }
}

#[test]
fn arguments_arrive_byte_for_byte() {
    if super::emulated() {
        return;
    }
    use std::os::unix::ffi::OsStrExt;
    if !kernel_restricts_files() || !has_namespaces() {
        return;
    }
    let mut bytes: Vec<u8> = (1..=255).collect();
    bytes.extend_from_slice(b"'\" $() -- --read /");
    let output = Command::new(TINYMCP)
        .args(["__sandbox", "--read", "system", "--net", "--", "printf", "%s|", "--", "--write", ""])
        .arg(std::ffi::OsStr::from_bytes(&bytes))
        .output()
        .unwrap();
    let mut expected = b"--|--write||".to_vec();
    expected.extend_from_slice(&bytes);
    expected.push(b'|');
    assert_eq!(output.stdout, expected, "{output:?}");
}

#[test]
fn grants_may_be_links_and_lie_in_one_another() {
    if super::emulated() {
        return;
    }
    if !kernel_restricts_files() {
        return;
    }
    let folder = Folder::new("nested");
    let inside = folder.filled("inside");
    let link = folder.0.join("link");
    std::os::unix::fs::symlink("inside/folder/..", &link).unwrap();
    let (write, link) = (inside.join("folder"), link.to_str().unwrap());
    for mode in modes() {
        let mut options = vec!["--read", "system", "--read", link, "--write", write.to_str().unwrap()];
        options.extend(mode);
        // The current folder stays, although it has no grant.
        let script =
            format!("cat {link}/file && echo new > {link}/folder/inner && pwd && ! cp /dev/null {link}/file");
        let output = Command::new(TINYMCP)
            .current_dir(&folder.0)
            .arg("__sandbox")
            .args(&options)
            .args(["--", "sh", "-c", &script])
            .output()
            .unwrap();
        assert!(output.status.success(), "{mode:?}: {output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("content\n{}\n", folder.0.display()));
        assert_eq!(fs::read(inside.join("folder/inner")).unwrap(), b"new\n");
    }
}

#[test]
fn a_grant_to_read_everything_covers_no_change() {
    if super::emulated() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    if !kernel_restricts_files() || !has_namespaces() {
        return;
    }
    let folder = Folder::new("everything");
    let (inside, outside) = (folder.filled("inside"), folder.filled("outside"));
    let outside = outside.join("file");
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o644)).unwrap();
    // A mount of its own.
    let shared = Path::new("/dev/shm").join(format!("tinymcp-sandbox-{}", std::process::id()));
    let has_shared = fs::write(&shared, "").is_ok();
    for mode in modes() {
        let options = [&["--read", "/", "--write", inside.to_str().unwrap()], mode].concat();
        for file in [&outside, &shared].into_iter().take(1 + usize::from(has_shared)) {
            let refused = sandboxed(&options, &["chmod", "600", file.to_str().unwrap()]);
            assert!(!refused.status.success(), "{mode:?} {file:?}: {refused:?}");
        }
        let script =
            format!("cd {} && chmod 600 file && echo > new && cat {outside:?} > /dev/null", inside.display());
        let allowed = sandboxed(&options, &["sh", "-c", &script]);
        assert!(allowed.status.success(), "{mode:?}: {allowed:?}");
    }
    let _ = fs::remove_file(shared);
}
