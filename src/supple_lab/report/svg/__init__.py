"""SVG: panels as geometry for the page, one file for each kind of panel."""
