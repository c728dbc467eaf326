"""The second language: every sentence has its translation, and what is shown in it is in it."""
