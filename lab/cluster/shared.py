"""Where are the parts of the arena and of the soak that this lab uses?

Idea: one import path for all files here, set by importing this module first. This folder comes
before the others, so none of its files has the name of one that is used there.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
ARENA = os.path.join(TREE, "lab", "arena")
SOAK = os.path.join(TREE, "lab", "soak")
TPCH = os.path.join(TREE, "crates", "engine", "tests", "tpch")

sys.path.extend(folder for folder in (ARENA, SOAK) if folder not in sys.path)
