"""How Sphinx makes the site: ``nox -s site`` builds it, and every warning is an error."""

from __future__ import annotations

import inspect
import re
from typing import Any

import recipes
from recipes import events, fencing, grant, guarantees, telemetry, testing

project = "coordination-recipes"
author = "the authors of coordination-recipes"
copyright = author  # noqa: A001 - Sphinx's name for it
version = release = recipes.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_inline_tabs",
]
exclude_patterns = ["examples", "generate"]
highlight_language = "text"  # a block that names no language is none
html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"code-font-size": "77%"},  # 92 characters fit on a screen of 1 280 pixels
}

myst_heading_anchors = 4  # links to headings are those of GitHub, where the pages are read too
myst_enable_extensions = ["attrs_block", "colon_fence"]

default_role = "py:obj"  # `Lock.acquire` in a docstring is a link
nitpicky = True
nitpick_ignore_regex = [
    # The standard library's: the site is built without a network.
    ("py:(class|obj)", r"(collections\.abc|os|ssl|threading)\.\w+|PathLike"),
    ("py:class", r"(tenacity\.\w+\.)?(wait|stop)_base"),
    # Type variables, aliases, and bases that several classes share: what they stand for is said in words.
    ("py:class", r"recipes\.[\w.]+\.(T|D|Any(Async)?(Grant|Shared)|(Blocking|Async)Held)|(Async)?Part"),
    ("py:class", r"(recipes\._api\.clients\.)?(StoreClient|RedisClient|Engine)"),
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autoclass_content = "class"
add_module_names = False
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_rtype = False
copybutton_exclude = ".linenos, .gp"

PUBLIC = (recipes, events, fencing, grant, guarantees, telemetry, testing)
WHERE = {
    f"{found.__module__}.{name}": f"{module.__name__}.{name}"
    for module in reversed(PUBLIC)
    for name, found in inspect.getmembers(module)
    if name in module.__all__ and hasattr(found, "__module__")
}
"""Where a class is documented, by where it is written: ``recipes.lock.Lock`` as ``recipes.Lock``."""


def find(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Find what is written in one module, and documented as another's, or as the package's own."""
    target: str = node.get("reftarget", "")
    name, _, member = target.rpartition(".")
    moved = [WHERE.get(target, ""), f"{WHERE.get(name, '')}.{member}"]
    domain = env.get_domain("py")
    for other in [*moved, *(f"{module.__name__}.{target}" for module in PUBLIC)]:
        if other in domain.objects:
            made = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", other, node, content)
            if made is not None:
                return made
    return None


def name_grant(*said: Any) -> Any:
    """Name the class of grants where what a method returns is written with a type variable."""
    _, what, name, _, _, given, returned = said
    kind: Any = getattr(recipes, name.split(".")[1], None)
    if what != "method" or returned is None or getattr(kind, "_grant", None) is None:
        return None
    return given, re.sub(r"[\w.~]*\bAny(Async)?Grant\b", kind._grant.__name__, returned)  # noqa: SLF001


def setup(app: Any) -> None:
    """Connect what is above."""
    app.connect("autodoc-process-signature", name_grant)
    app.connect("missing-reference", find)
