### What stands beside the charts of a run: a moment in which something changed.

# $changes are settings with their values before and after, as code.
mark-of-settings = { $loader }: { $tuned ->
        [yes] autotune,{ " " }
       *[no] { "" }
    }{ $changes }
mark-of-attempt = attempt { $attempt } begins
