"""The pages of the site for visitors who follow a link: the first page, and lesson 04's reader to try."""
