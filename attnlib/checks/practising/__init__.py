"""Practice in finding bugs: right answers with one wrong line, served, judged, and asked again in time."""
