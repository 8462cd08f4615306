"""Serves copies of the definition files that the clients are tested with.

Used as `python3 serve_copy.py TINYMCP ARGS…`; it becomes `TINYMCP serve FOLDER --watch ARGS…`. FOLDER is `definition` in
TMPDIR, which a tap sets to the folder of its session: so checks may change the files, and all servers of a session
have the same ones. It has the files of this folder's `definition` and of examples/serve, those without their members
`server`, as only one file may have it, and `skills`. It is a git repository with one commit, which the tools of git.json read.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "serve"
GIT = ["git", "-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgSign=false"]


def fill(folder):
    shutil.copytree(HERE / "definition", folder)
    (folder / "manual" / "pixel.png").write_bytes(base64.b64decode((folder / "pixel.txt").read_text()))
    (folder / "state").mkdir()
    for name in "abc":
        (folder / "state" / name).write_text(f"state {name}")
    for path in filter(Path.is_file, EXAMPLES.iterdir()):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            definition = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))
            del definition["server"]
            # Its files would be in the list of resources, which the checks compare.
            definition.pop("skills", None)
            text = json.dumps(definition)
        (folder / path.name).write_text(text, encoding="utf-8")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=Add the definition"]):
        subprocess.run([*GIT, *command], cwd=folder, check=True, stdin=subprocess.DEVNULL)


def main():
    program, *arguments = sys.argv[1:]
    folder = Path(os.environ["TMPDIR"]) / "definition"
    if not folder.exists():
        # Another server of the session may do the same at the same time.
        new = folder.with_name(f"definition-{os.getpid()}")
        fill(new)
        try:
            new.rename(folder)
        except OSError:
            shutil.rmtree(new)
    os.execv(program, [program, "serve", str(folder), "--watch", *arguments])


main()
