"""A report as a page: one file without a script, an address or anything else to fetch.

page.py      the parts of a report, and the templates filled with them
sources.py   the user's lines, each with the questions and findings about it
drawing.py   the domain and its regions over two dims, drawn by matplotlib
templates/   the page, a report in it, and the style sheet
"""
