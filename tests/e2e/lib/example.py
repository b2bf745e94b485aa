"""What the compose file of an example has to keep to."""
import os
import re

from .tap import equal, true


def check_compose(t, folder, files, services):
    """Its files and `files` are there, the variables of sluice.ini are set, and it has these services. Returns them as
    YAML; skips the rest without python3-yaml."""
    with open(os.path.join(folder, "compose.yaml"), encoding="utf-8") as text:
        lines = text.read()
    with t.point("the files that it names are there"):
        for path in re.findall(r"- (\./[^:]*):", lines) + files:
            true(os.path.exists(os.path.join(folder, path)), path)
        built = re.findall(r"context: (\S+)\n +dockerfile: (\S+)", lines)
        true(built, "an image is built")
        for context, dockerfile in built:
            true(os.path.exists(os.path.join(folder, context, dockerfile)), dockerfile)
    with t.point("the variables of sluice.ini are set"):
        with open(os.path.join(folder, "sluice.ini"), encoding="utf-8") as ini:
            names = set(re.findall(r"\$\{(\w+)", ini.read()))
        equal({name for name in names if f"{name}:" not in lines}, set())
    with t.point("it is YAML, with all services"):
        try:
            import yaml
        except ImportError:
            t.skip("python3-yaml is not installed")
        found = yaml.safe_load(lines)["services"]
        equal(sorted(found), sorted(services))
        return found
    return None
