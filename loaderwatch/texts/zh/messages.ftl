### 告警的通知：聊天、邮件和作业终端里的文字。

time-lost = { KNOWN($lost_s) ->
        [yes] 损失的训练时间：{ DURATION($lost_s) }。
       *[no] { "" }
    }
alert-began =
    .title = { $alert }（{ $run }）
alert-ended-with-process =
    .title = 训练进程已退出，告警关闭：{ $alert }（{ $run }）
    .body = 告警持续了 { DURATION($lasted_s) }，直到训练进程退出。{ time-lost }
alert-unheard =
    .title = 失去联系：{ $alert }（{ $run }）
    .body = 运行所在的主机或网络没有响应，不知道问题是否仍在持续。{ time-lost }
alert-resolved =
    .title = 已恢复：{ $alert }（{ $run }）
    .body = 持续了 { DURATION($lasted_s) }。{ time-lost }
alert-goes-on =
    .title = 持续 { DURATION($lasted_s) }仍未恢复：{ $alert }（{ $run }）
    .body = 还没有人在页面上确认。{ time-lost }
alert-cause = 原因：{ $cause }
alert-advice = 怎么办：{ $advice }
folded-finding = { KNOWN($warned_s) ->
        [yes] 提前 { DURATION($warned_s) }已告警：{ $title }
       *[no] 同一原因，另外还发现：{ $title }
    }

## 位置

alert-rank = rank { $rank }
alert-host = 主机 { $host }
alert-worker = worker { $worker }
alert-pid = pid { $pid }
alert-sample = 样本 { $samples }

## 作业终端里的一行

line-ended-with-process = 持续 { DURATION($lasted_s) }后随训练进程结束：{ $alert }
line-resolved = 持续 { DURATION($lasted_s) }后恢复：{ $alert }
line-began = { $alert }{ KNOWN($line) ->
        [yes] ，卡在 { $line }
       *[no] { "" }
    }{ KNOWN($warned_s) ->
        [yes] （已提前 { DURATION($warned_s) }警告）
       *[no] { "" }
    } — { $advice }

## 运行结束

steps-done = { COUNT($steps) } 步
run-ended =
    .title = { $end ->
            [stopped] 已停止
            [finished] 已完成
            [crashed] 已崩溃
            [hung] 最后一次联系时已卡死
           *[unheard] 失去联系
        }：{ $run }，{ steps-done }，用时 { DURATION($took_s) }
lost-of-run = { DURATION($lost_s) }（{ PERCENT($lost_ratio) }）
lost-explained = 其中损失 { lost-of-run }{ $overlaps ->
        [yes] （下面各项有重复计算）
       *[no] { "" }
    }
lost-unexplained = 其中 { lost-of-run }损失在等数据上，没有突出的单一原因
hardly-lost = 几乎没有时间损失在等数据上（{ DURATION($lost_s) }）
cost-of-alert = { DURATION($lost_s) }：{ $alert }
more-on-page = 页面上还有 { $more } 项
change-first = 先改：{ $advice }

## 免打扰时段结束

quiet-is-over =
    .title = 免打扰时段{ KNOWN($hours) ->
            [yes] （{ $hours }）
           *[no] { "" }
        }：{ $messages } 条通知
earlier-on-page = 此前还有 { $earlier } 条，见页面。
