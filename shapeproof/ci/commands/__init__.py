"""One file for each command. A command reads its arguments, calls what does the work, prints, and exits."""
