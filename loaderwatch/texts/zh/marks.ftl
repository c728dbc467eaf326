### 图表旁的标记：某项发生变化的时刻。

mark-of-settings = { $loader }：{ $tuned ->
        [yes] 自动调优，
       *[no] { "" }
    }{ $changes }
mark-of-attempt = 第 { $attempt } 次尝试开始
