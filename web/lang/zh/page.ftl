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

## 读者的操作

note-not-done = 操作未完成：{ $why }
note-theme = 主题：{ $theme ->
        [light] 浅色
        [dark] 深色
       *[auto] 跟随系统
    }
note-acknowledged = 已确认
note-silenced = 已静默一小时
note-stacks-asked = 已请求调用栈，一两秒内送达
note-link-copied = 已复制当前视图的地址
note-link-not-copied = 无法复制，请手动选取：{ $link }
note-saved = 已保存
note-deleted = 已删除 { $name }

## 服务器与登录

server-answered = 服务器返回 { $status }
server-silent = 服务器没有应答
session-another-process = 此地址上应答的是另一个进程
session-another-process-or-new-tokens = 此地址上应答的是另一个进程，或服务器更换了令牌
sign-in-unknown-token = 此服务器不认识该令牌。
sign-in-unknown-token-in-address = 此地址中的令牌不被该服务器认可。
sign-in-server-silent = 服务器没有应答。

## 各图表共有的文字

chart-library-not-loaded = 图表库加载失败
reading-of-means = 当前时间范围内的平均值
reading-at = { $time } 处
epoch-of-loader = { $loader } · { $epoch }

## 下载：图表存为 CSV 或 PNG，页面存为报告

download-chart = 下载此图：{ download-as }
download-chart-button = { $kind ->
        [csv] CSV
       *[png] PNG
    }：下载此图，{ download-as }
download-as = { $kind ->
        [csv] 数据表格
       *[png] 图片
    }
download-no-table = 此图没有可用的数据表
download-not-drawn = 此图尚未画出
download-no-picture = 无法生成图片
report-begins = 正在生成报告
report-saved = { $missing ->
        [0] 报告已保存
       *[other] 报告已保存，缺少 { $missing } 个图表，报告中写明了原因
    }
report-failed = 无法生成报告：{ $why }
report-made = 报告时间 { $time } UTC
report-missing = 此报告中缺失：{ $charts }
report-chart-missing = 此图表缺失：{ $why }
report-chart-not-drawn = 未能画出
report-chart-not-answered = 服务器没有应答
