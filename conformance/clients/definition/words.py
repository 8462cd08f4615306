#!/usr/bin/env python3
"""Worker of the tool `words`: counts words, and names its process."""

import json
import os
import sys

for line in sys.stdin:
    call = json.loads(line)
    words = len(call["arguments"]["text"].split())
    print(json.dumps({"id": call["id"], "result": {"words": words, "process": os.getpid()}}), flush=True)
