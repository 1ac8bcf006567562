"""The pages of the site that someone sees who arrives from a link: the first page, and lesson 04's reader to try."""
