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
