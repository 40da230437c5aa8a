"""Settings of Sphinx for the site that make_site.py builds. A reader's browser and the build fetch nothing from a network."""

project = "tile_ops"
author = copyright = "The tile_ops authors"
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = []
html_theme = "furo"
html_title = "tile_ops"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd3a8", "color-brand-content": "#5fd3a8"},
}
pygments_style, pygments_dark_style = "friendly", "monokai"
smartquotes = False
toc_object_entries_show_parents = "hide"
highlight_language = "text"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # the anchors that a code host gives to headings
copybutton_prompt_text = "$ "
