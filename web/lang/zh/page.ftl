### 面板和图表之外的页面文字：最先显示的内容、窗口标题、通知，以及对读者操作的提示。

skip-to-content = 跳到正文
loading = 加载中…

## 窗口标题

title = { $page } · loaderwatch
title-stale = （数据已旧）{ title }
title-with-alerts = ({ $open }) { title }
title-of-rank = rank { $rank } · { $run }

## 告警，供没有在看页面的读者

new-alert = { severity }告警：{ $title }
severity = { $severity ->
        [critical] 严重
        [warning] 警告
       *[info] 提示
    }
news-of-run = { $run }：{ $advice }
news-lost = 与 { $run } 失去联系
alerts-sound = { $notified ->
        [yes] 本次运行的告警会在此响铃并发系统通知
       *[no] 本次运行的告警会在此响铃。浏览器禁止此地址发系统通知
    }
alerts-sound-without-https = 本次运行的告警会在此响铃。系统通知需要 https，或在 localhost 上打开页面
alerts-silent = 此处告警已静音
