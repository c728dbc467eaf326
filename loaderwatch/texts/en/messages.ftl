### What is told of alerts: in chats and e-mails, and in the job's terminal. $alert is the title of the alert, $run the name of the run.

time-lost = { KNOWN($lost_s) ->
        [yes] { " " }Training time lost: { DURATION($lost_s) }.
       *[no] { "" }
    }
alert-began =
    .title = { $alert } ({ $run })
alert-ended-with-process =
    .title = Training process died, alert closed: { $alert } ({ $run })
    .body = The alert lasted { DURATION($lasted_s) }, until the training process died.{ time-lost }
alert-unheard =
    .title = Contact lost: { $alert } ({ $run })
    .body = The run's host or the network does not answer. Whether this problem goes on is not known.{ time-lost }
alert-resolved =
    .title = Resolved: { $alert } ({ $run })
    .body = The problem lasted { DURATION($lasted_s) }.{ time-lost }
alert-goes-on =
    .title = Still open after { DURATION($lasted_s) }: { $alert } ({ $run })
    .body = Nobody has acknowledged this alert on the page.{ time-lost }
alert-cause = Cause: { $cause }
alert-advice = What to do: { $advice }
# $title is that of another finding, which this alert explains; $warned_s is unknown where that was no alert before.
folded-finding = { KNOWN($warned_s) ->
        [yes] Warned { DURATION($warned_s) } earlier: { $title }
       *[no] Also seen, same cause: { $title }
    }
## Where it is

alert-rank = rank { $rank }
alert-host = host { $host }
alert-worker = worker { $worker }
alert-pid = pid { $pid }
# $samples are one or more indices.
alert-sample = sample { $samples }

## A line in the job's terminal

line-ended-with-process = closed after { DURATION($lasted_s) }, because the training process died: { $alert }
line-resolved = resolved after { DURATION($lasted_s) }: { $alert }
# $alert is a title without its full stop. $line is the line of the script at which the run hangs, $warned_s how long before it was warned;
# both may be unknown. $advice is the beginning of the advice.
line-began = { $alert }{ KNOWN($line) ->
        [yes] , stuck at { $line }
       *[no] { "" }
    }{ KNOWN($warned_s) ->
        [yes] { " " }(warned { DURATION($warned_s) } earlier)
       *[no] { "" }
    } — { $advice }

## The end of a run

steps-done = { $steps ->
        [one] { $steps } step
       *[other] { COUNT($steps) } steps
    }
run-ended =
    .title = { $end ->
            [stopped] Stopped
            [finished] Finished
            [crashed] Crashed
            [hung] Hung at the last contact
           *[unheard] Contact lost
        }: { $run }, { steps-done } in { DURATION($took_s) }
# A share of the run's time.
lost-of-run = { DURATION($lost_s) } ({ PERCENT($lost_ratio) })
lost-explained = { lost-of-run } lost{ $overlaps ->
        [yes] { " " }(the items below overlap)
       *[no] { "" }
    }
lost-unexplained = { lost-of-run } lost to data wait, without one main cause
hardly-lost = almost no time lost to data wait ({ DURATION($lost_s) })
cost-of-alert = { DURATION($lost_s) }: { $alert }
more-on-page = { $more } more on the page
change-first = change first: { $advice }

## After quiet hours

# $hours is when messages are held back, where that is known.
quiet-is-over =
    .title = During quiet hours{ KNOWN($hours) ->
            [yes] { " " }({ $hours })
           *[no] { "" }
        }: { $messages ->
            [one] { $messages } message
           *[other] { $messages } messages
        }
earlier-on-page = { $earlier ->
        [one] { $earlier } earlier message is
       *[other] { $earlier } earlier messages are
    } on the page.
