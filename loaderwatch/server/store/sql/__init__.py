"""What both databases share: the SQL of charts, lists and sums, the rollups that they read, and what is kept of an open run."""
