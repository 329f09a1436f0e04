"""Links lead to files and to headings."""

import tempfile
import unittest
from pathlib import Path

import links

PAGE = """# How long, at 200 MB/s?

[here](other.md) [there](other.md#what-it-is) [up](#how-long-at-200-mbs) [far](https://example.org/x)
[gone](gone.md) [no heading](other.md#nothing)

```sh
echo "[not a link](nowhere.md)"
```
"""


class Links(unittest.TestCase):
    def test_a_broken_link_is_named_with_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "page.md").write_text(PAGE, encoding="utf-8")
            (folder / "other.md").write_text("## What it `is`\n", encoding="utf-8")
            wrong = list(links.broken(folder, folder / "page.md"))
        self.assertEqual(wrong, ["page.md:4: gone.md is not there", "page.md:4: other.md#nothing: no such heading"])


if __name__ == "__main__":
    unittest.main()
