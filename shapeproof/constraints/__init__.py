"""What must hold: terms, formulas, their meaning, and what is said about them. Standard library only."""
