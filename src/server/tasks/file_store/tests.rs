//! Power cuts at any moment: torn and damaged ends of the file.

#![allow(clippy::unwrap_used)]

use super::*;

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }
}

/// Tasks with their outcomes, in the order of acceptance.
type Model = Vec<(String, String, Option<String>)>;

fn of(stored: Vec<StoredTask>) -> Model {
    let text = |json: Json| json.as_str().to_owned();
    stored.into_iter().map(|stored| (stored.id, text(stored.task), stored.outcome.map(text))).collect()
}

fn read(bytes: &[u8]) -> Model {
    let line = |place: &Range<u64>| {
        let place = usize::try_from(place.start).unwrap()..usize::try_from(place.end).unwrap();
        String::from_utf8(bytes[place].to_vec())
    };
    of(Index::read(bytes).stored(line).unwrap())
}

/// Applies a random change to the model, and returns its line.
fn change(random: &mut Random, model: &mut Model, number: usize) -> String {
    let open: Vec<usize> = (0..model.len()).filter(|at| model[*at].2.is_none()).collect();
    match random.next(5) {
        0 | 1 if !open.is_empty() => {
            let at = open[random.next(open.len())];
            let outcome = format!("{{\"result\":\"{}\"}}", "r".repeat(random.next(60)));
            model[at].2 = Some(outcome.clone());
            let id = model[at].0.clone();
            line(|w| _ = w.key("finish").string(&id).key("outcome").raw(&outcome))
        }
        2 | 3 if model.len() > 5 => {
            let (id, ..) = model.remove(random.next(model.len()));
            line(|w| _ = w.key("remove").string(&id))
        }
        _ => {
            let (id, task) = (format!("id-{number}"), format!("{{\"n\":{number},\"s\":\"a\\nb\"}}"));
            model.push((id.clone(), task.clone(), None));
            line(|w| _ = w.key("accept").string(&id).key("task").raw(&task))
        }
    }
}

#[test]
fn no_task_is_lost_at_ten_thousand_power_cuts() {
    let mut random = Random(0x5eed_1234_5678_9abc);
    let (mut model, mut file) = (Model::new(), Vec::new());
    for number in 0..500 {
        let before = model.clone();
        let line = change(&mut random, &mut model, number);
        for _ in 0..20 {
            // The line is written in part, and what is written may be damaged.
            let mut tail = line.as_bytes()[..random.next(line.len() + 1)].to_vec();
            let mut is_whole = tail.len() == line.len();
            if !tail.is_empty() && random.next(2) == 0 {
                for _ in 0..=random.next(4) {
                    let at = random.next(tail.len());
                    tail[at] ^= u8::try_from(random.next(255)).unwrap() + 1;
                }
                is_whole = tail == line.as_bytes();
            }
            let bytes = [&file[..], &tail].concat();
            let expected = if is_whole { &model } else { &before };
            assert_eq!(&read(&bytes), expected, "after line {number}, {:?}", String::from_utf8_lossy(&tail));
        }
        file.extend_from_slice(line.as_bytes());
        if file.len() > 2000 {
            file = compacted(&model);
        }
    }
}

/// Returns the file with the lines of these tasks only.
fn compacted(model: &Model) -> Vec<u8> {
    let mut file = Vec::new();
    for (id, task, outcome) in model {
        file.extend_from_slice(line(|w| _ = w.key("accept").string(id).key("task").raw(task)).as_bytes());
        if let Some(outcome) = outcome {
            let line = line(|w| _ = w.key("finish").string(id).key("outcome").raw(outcome));
            file.extend_from_slice(line.as_bytes());
        }
    }
    file
}

#[test]
fn a_damaged_line_loses_only_its_own_content() {
    let accept = |id: &str| line(|w| _ = w.key("accept").string(id).key("task").raw("{}"));
    let (a, b, c) = (accept("a"), accept("b"), accept("c"));
    let whole = [a.as_bytes(), b.as_bytes(), c.as_bytes()].concat();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let ids: Vec<String> = read(&bytes).into_iter().map(|(id, ..)| id).collect();
        assert!(matches!(ids.len(), 1 | 2), "byte {at}: {ids:?}");
    }
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tinymcp-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_of_another_format_is_not_changed() {
    let folder = Folder::new("foreign");
    let path = folder.0.join("notes.txt");
    let store = |text: &str| {
        fs::write(&path, text).unwrap();
        let opened = FileTaskStore::open(&path).map(drop).map_err(|error| error.to_string());
        (opened, fs::read_to_string(&path).unwrap())
    };
    let (opened, kept) = store("first\nsecond\n");
    assert!(opened.unwrap_err().contains("not a file of tasks"));
    assert_eq!(kept, "first\nsecond\n");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    // Power cuts: a torn line, and a damaged one.
    for text in ["", "0123", "0123456789abcdef {\"acc", "0123456789abcdef {\"accept\":\"a\"}\n", "K\u{7f}\nQ"]
    {
        assert_eq!(store(text), (Ok(()), String::new()), "{text:?}");
    }
    #[cfg(unix)]
    {
        // A compaction does not write through a link.
        let victim = folder.0.join("victim");
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, with_suffix(&path, ".new")).unwrap();
        assert_eq!(store("0123"), (Ok(()), String::new()));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }
}

#[test]
#[cfg(unix)]
fn a_file_has_one_store_under_all_its_names() {
    let folder = Folder::new("names");
    let [path, link, symlink] = ["tasks", "link", "symlink"].map(|name| folder.0.join(name));
    let store = FileTaskStore::open(&path).unwrap();
    fs::hard_link(&path, &link).unwrap();
    std::os::unix::fs::symlink(&path, &symlink).unwrap();
    for name in [&path, &link, &symlink] {
        assert_eq!(FileTaskStore::open(name).map(drop).unwrap_err().kind(), ErrorKind::Busy, "{name:?}");
    }
    drop(store);
    FileTaskStore::open(&link).unwrap();
}

#[test]
#[cfg(unix)]
fn a_pipe_is_not_a_file_of_tasks() {
    let folder = Folder::new("pipe");
    let path = folder.0.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = FileTaskStore::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn the_file_stays_small_and_opens_after_every_interruption() {
    let folder = Folder::new("small");
    let path = folder.0.join("tasks");
    let task = Json::parse(format!("\"{}\"", "x".repeat(4000))).unwrap();
    let mut expected = Model::new();
    for round in 0..4 {
        let store = FileTaskStore::open(&path).unwrap();
        #[cfg(unix)]
        if round == 0 {
            let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(of(store.load().unwrap()), expected);
        for number in 0..40 {
            let id = format!("{round}-{number}");
            store.accept(&id, &task).unwrap();
            store.finish(&id, &task).unwrap();
            if number == 0 {
                expected.push((id, task.as_str().to_owned(), Some(task.as_str().to_owned())));
            } else {
                store.remove(&id);
            }
        }
        let used: usize = expected.len() * 2 * 4100;
        assert!(fs::metadata(&path).unwrap().len() < 2 * used as u64 + SLACK + 8200);
        assert_eq!(of(store.load().unwrap()), expected);
        drop(store);
        // A compaction and a line that a power cut has interrupted.
        fs::write(with_suffix(&path, ".new"), "0000 {").unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"0123456789abcdef {\"accept\":\"torn").unwrap();
    }
}

/// A process that another thread starts has a copy of the descriptor until it runs its program.
#[cfg(unix)]
#[test]
fn a_store_that_is_closed_is_unlocked_although_its_descriptor_has_a_copy() {
    let path = std::env::temp_dir().join(format!("tinymcp-tasks-copy-{}.lock", std::process::id()));
    let locked = lock_file(&path).unwrap();
    let copy = locked.0.try_clone().unwrap();
    assert_eq!(lock_file(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(locked);
    lock_file(&path).unwrap();
    drop(copy);
    fs::remove_file(&path).unwrap();
}
