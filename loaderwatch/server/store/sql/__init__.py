"""What both databases share: the SQL of charts, lists and sums, rollups, and the memory of an open run."""
