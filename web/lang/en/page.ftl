### The page outside its panels and charts: what is drawn first, the window's title, notifications, notes on what the reader did.

skip-to-content = Skip to content
loading = Loading…

## The window's title

title = { $page } · loaderwatch
title-stale = (stale) { title }
title-with-alerts = ({ $open }) { title }
title-of-rank = rank { $rank } · { $run }

## Alerts, for readers who do not look at the page

new-alert = { severity } alert: { $title }
severity = { $severity ->
        [critical] critical
        [warning] warning
       *[info] info
    }
news-of-run = { $run }: { $advice }
news-lost = Lost contact with { $run }
alerts-sound = { $notified ->
        [yes] Alerts of this run sound here and are notified
       *[no] Alerts of this run sound here. The browser forbids notifications for this address
    }
alerts-sound-without-https = Alerts of this run sound here. Notifications need https, or the page on localhost
alerts-silent = Alerts are silent here

## What the reader did

note-not-done = Not done: { $why }
note-theme = Theme: { $theme ->
        [light] light
        [dark] dark
       *[auto] as the system
    }
note-acknowledged = Acknowledged
note-silenced = Silenced for an hour
note-stacks-asked = Stacks asked for; they arrive within a second or two
note-link-copied = Copied the address of exactly this
note-link-not-copied = Could not copy; select it by hand: { $link }
note-saved = Saved
note-deleted = Deleted { $name }

## The server, and signing in

server-answered = the server answered { $status }
server-silent = the server does not answer
session-another-process = another process answers at this address
session-another-process-or-new-tokens = another process answers at this address, or the server has new tokens
sign-in-unknown-token = This server does not know that token.
sign-in-unknown-token-in-address = This address holds a token that this server does not know.
sign-in-server-silent = The server does not answer.

## What the charts have in common

chart-library-not-loaded = the chart library could not be loaded
reading-of-means = means of the time in view
reading-at = at { $time }
epoch-of-loader = { $loader } · { $epoch }

## Downloads: a chart as CSV or PNG, and the page as a report

download-chart = Download this chart: { download-as }
download-chart-button = { $kind ->
        [csv] CSV
       *[png] PNG
    }: download this chart, { download-as }
download-as = { $kind ->
        [csv] its numbers as a table
       *[png] as a picture
    }
download-no-table = this chart has no table
download-not-drawn = this chart is not drawn
download-no-picture = the picture could not be made
report-begins = Making the report
report-saved = { $missing ->
        [0] The report is saved
        [one] The report is saved without { $missing } chart, and says why
       *[other] The report is saved without { $missing } charts, and says why
    }
report-failed = No report: { $why }
report-made = report of { $time } UTC
report-missing = Missing in this report: { $charts }
report-chart-missing = This chart is missing: { $why }
report-chart-not-drawn = it was not drawn
report-chart-not-answered = the server has not answered
