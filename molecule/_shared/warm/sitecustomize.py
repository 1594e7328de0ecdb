"""Keeps what Python and Ansible work out of source, by that source's content.

Ansible sends each module as a zip of source files. Python compiles them anew in each task, and the
controller looks anew for what they import: together most of a task's time. pip compiles what it
installs, on nodes that are fresh each time: half of its time. Here all that is kept in a folder,
named by a hash of the source (of a file in a zip by its CRC-32 and length), so that other source is
worked out anew. Python imports a module of this name by itself as it starts (PYTHONPATH, or
/etc/python3.11 of the emulated machine). A package that costs seconds and that nothing here needs
is not imported. Nothing is changed where there is no folder: that of TRUEUP_WARM, or else
/var/cache/trueup-warm; but that the collector of garbage comes seldom.
"""

import sys


def _folder():
    """The folder of this user, Python and system; None: nothing is kept."""
    import os

    asked = os.environ.get("TRUEUP_WARM", "/var/cache/trueup-warm")
    if not os.path.isdir(asked):
        return None
    # Another user could put code there.
    folder = f"{asked}/{os.getuid()}"
    try:
        if not os.path.isdir(folder):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return None
    safe = (found.st_uid, found.st_mode & 0o170777) == (os.getuid(), 0o040700)
    return f"{folder}/{sys.implementation.cache_tag}-{sys.hexversion:x}" if safe else None


class _Kept:
    """Values by a hash of what they were worked out of; written whole or not at all."""

    def __init__(self, prefix):
        # Before anything is asked for: where it is not compiled yet, its own import would ask.
        import hashlib

        self.prefix, self.hash = prefix, hashlib.sha256

    def get(self, kind, *sources):
        """The path of a value, and the value; None where there is none."""
        import marshal

        digest = self.hash(b"\0".join(sources)).hexdigest()
        path = f"{self.prefix}-{kind}-{digest}"
        try:
            with open(path, "rb") as file:
                return path, marshal.loads(file.read())
        except (OSError, EOFError, ValueError, TypeError):
            return path, None

    def put(self, path, value):
        """Keep a value; where that is not possible, it is worked out again."""
        import marshal
        import os

        own = f"{path}.{os.getpid()}"
        try:
            # Two nodes may share the folder, and their processes have the same numbers.
            with open(own, "xb") as file:
                file.write(marshal.dumps(value))
            os.rename(own, path)
        except OSError:
            pass


def _keep_code(kept):
    """Of files in a zip: their code. A zip says of each file its length and CRC-32: with these it
    need not be unpacked."""
    import zipimport

    plain = zipimport._get_module_code

    def code_of(self, fullname):
        stem = zipimport._get_module_path(self, fullname)
        for end, is_package in (("/__init__.py", True), (".py", False)):
            if f"{stem}{end}" in self._files:
                path, _, _, length, _, _, _, crc = self._files[f"{stem}{end}"]
                # The zip has another name each time; a traceback says the first.
                name = path.rpartition(".zip")[2]
                kept_at, code = kept.get("code", name.encode(), b"%d %d" % (length, crc))
                if code is None:
                    code = plain(self, fullname)[0]
                    kept.put(kept_at, code)
                return code, is_package, path
        return plain(self, fullname)

    zipimport._get_module_code = code_of


def _keep_files(kept):
    """Of files that stand alone: their code, as imports and pip make it."""
    from importlib.machinery import SourceFileLoader

    plain = SourceFileLoader.source_to_code

    def compiled(self, data, path, *, _optimize=-1):
        # Imports may give a tree or text.
        if type(data) is not bytes:
            return plain(self, data, path, _optimize=_optimize)
        level = sys.flags.optimize if _optimize < 0 else _optimize
        kept_at, code = kept.get("code", data, str(path).encode(), b"%d" % level)
        if code is None:
            code = plain(self, data, path, _optimize=_optimize)
            kept.put(kept_at, code)
        return code

    SourceFileLoader.source_to_code = compiled


class _Changed:
    """A module that is changed as soon as it is imported."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def changed(module):
            execute(module)
            self.change(module)

        spec.loader.exec_module = changed
        return spec


def _keep_imports(kept):
    """Of module_utils, on the controller: what they import, as Ansible found it."""

    def change(module):
        from ansible.release import __version__ as release

        tree_of, finder = module._compile_module_ast, module.ModuleDepFinder
        plain = finder.__init__

        class Source:
            """Parsed only where more is asked than its imports."""

            def __init__(self, name, text):
                self.name, self.text = name, text

            def __getattr__(self, asked):
                return getattr(tree_of(self.name, self.text), asked)

        def init(self, fqn, tree, is_pkg_init=False):
            if not isinstance(tree, Source):
                return plain(self, fqn, tree, is_pkg_init)
            text = tree.text if isinstance(tree.text, bytes) else tree.text.encode()
            asked = bytes(text), fqn.encode(), b"%d" % is_pkg_init, release.encode()
            path, found = kept.get("imports", *asked)
            if found is None:
                plain(self, fqn, tree_of(tree.name, tree.text), is_pkg_init)
                found = sorted(self.submodules), sorted(self.optional_imports)
                kept.put(path, found)
            self.submodules, self.optional_imports = map(set, found)
            return None

        module._compile_module_ast, finder.__init__ = Source, init

    sys.meta_path.insert(0, _Changed("ansible.executor.module_common", change))


def _ask_once():
    """Of molecule: it starts ansible-playbook before each playbook to see that it is there."""

    def change(module):
        ask, found = module.AnsiblePlaybook._validate_backend, set()

        def once(self, backend):
            if backend not in found:
                ask(self, backend)
                found.add(backend)

        module.AnsiblePlaybook._validate_backend = once

    sys.meta_path.insert(0, _Changed("molecule.provisioner.ansible_playbook", change))


def _collect_seldom():
    """What imports make stays: to look at it every 700 objects is a sixth of an import of vLLM."""
    import gc

    gc.set_threshold(50_000, 20, 100)


_collect_seldom()
_prefix = _folder()
if _prefix:
    # jsonschema imports it where it is there: 38 grammars, 1.6 s of processor time. No schema of
    # ours has an address to be checked (format: iri).
    sys.modules.setdefault("rfc3987_syntax", None)
    _keep_code(_Kept(_prefix))
    _keep_files(_Kept(_prefix))
    _keep_imports(_Kept(_prefix))
    _ask_once()
