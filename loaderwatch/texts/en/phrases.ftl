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

# Who a sentence is about, as its subject; the verb that follows chooses its form by $who as well.
who = { $who ->
        [training] Training
        [one] Rank { $ranks }
        [both] Both ranks
        [all] All { $world } ranks
       *[several] Ranks { $ranks }
    }
# Over what time a share was measured, as an aside.
measured = (measured over { ROUGHLY($elapsed_s) })
# A sample's name: its index in a dataset, or in a stream its place in what its worker read.
sample-name = { $stream ->
        [yes] sample { $sample } of its stream
       *[no] dataset[{ $sample }]
    }

# Until all titles are messages: the beginning of a title, and why.
joined = { $before }{ $because }.
