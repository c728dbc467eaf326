### Parts of sentences that several messages share.

# $rank is unknown in a run with one rank.
on-rank = { KNOWN($rank) ->
        [yes] { " on rank " }{ $rank }
       *[no] { "" }
    }
of-rank = { KNOWN($rank) ->
        [yes] { " of rank " }{ $rank }
       *[no] { "" }
    }
