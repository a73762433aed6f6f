"""The style sheet of explanations: dark and light by what the reader prefers, readable on a phone and on paper."""

STYLE = """
.ww-explain{--ink:#1c2128;--soft:#5b6570;--faint:#8a949e;--line:#e3e7eb;--paper:#fff;--card:#f6f8fa;--bar:#9db2c8;
--need:#2a9d8f;--waste:#e76f51;--hot:#d1432b;--good:#1b7f5c;--gain:#e3f4ec;--fetched:#fdeae3;--edge:#f0b9a6;
color:var(--ink);background:var(--paper);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
max-width:1340px;margin:0 auto;padding:1.6rem clamp(.8rem,3vw,2rem);box-sizing:border-box;color-scheme:light dark}
@media(prefers-color-scheme:dark){.ww-explain{--ink:#e6eaee;--soft:#a3adb8;--faint:#76818c;--line:#2b323a;--paper:#14181d;
--card:#1c2229;--bar:#50657c;--need:#3fb8a8;--waste:#ee8162;--hot:#ff7a5c;--good:#5fd0a5;--gain:#173529;--fetched:#33221d;--edge:#6d4034}
html:has(>body>.ww-explain){background:#14181d}}
.ww-explain *{box-sizing:border-box}
.ww-explain h2{font:600 1.5rem/1.25 ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,monospace;margin:0 0 .8rem;overflow-wrap:anywhere}
.ww-explain h3{font-size:.8rem;letter-spacing:.09em;text-transform:uppercase;color:var(--soft);font-weight:600;margin:0 0 .7rem}
.ww-explain section{margin:2rem 0 0}
.ww-explain code{font:13px/1.45 ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,monospace}
.ww-explain dl{display:flex;flex-wrap:wrap;gap:.5rem 1.6rem;margin:0}
.ww-explain dt{font-size:.72rem;color:var(--soft);letter-spacing:.03em}.ww-explain dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums}
.ww-explain .ww-big{font-size:1.12rem;margin:0 0 1rem;max-width:60ch}.ww-explain .ww-big b{font-size:1.35em}
.ww-explain .ww-big b+b{color:var(--hot)}
.ww-explain .ww-scroll{overflow-x:auto}
.ww-explain table{border-collapse:collapse;width:100%;background:none;margin:0;font-size:.9rem}
.ww-explain tr,.ww-explain td,.ww-explain th{background:none!important;border:0;text-align:left!important;padding:.14rem .5rem;
vertical-align:middle;color:inherit}
.ww-explain .ww-limiter th{font-weight:500;white-space:nowrap;width:1%;padding-left:0}
.ww-explain .ww-limiter .ww-wide{min-width:9rem;width:55%}
.ww-explain .ww-wide i{display:block;height:.85rem;background:var(--bar);border-radius:3px;min-width:2px}
.ww-explain .ww-hot .ww-wide i{background:var(--waste)}.ww-explain .ww-hot th{font-weight:700;color:var(--hot)}
.ww-explain .ww-n{font-variant-numeric:tabular-nums;white-space:nowrap}
.ww-explain td.ww-n{text-align:right!important}
.ww-explain .ww-faint{color:var(--soft);white-space:normal}
.ww-explain .ww-good{color:var(--good)}.ww-explain .ww-bad{color:var(--hot)}
.ww-explain .ww-limiter>p:last-child{margin:.8rem 0 0;font-size:.9rem}
.ww-explain ul{list-style:none;margin:0;padding:0}
.ww-explain .ww-hints ul{display:grid;gap:.7rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.ww-explain .ww-hints li{background:var(--card);border-left:3px solid var(--bar);border-radius:6px;padding:.7rem .9rem}
.ww-explain .ww-hints li.ww-opt{border-left-color:var(--waste)}
.ww-explain .ww-hints p{margin:0 0 .3rem}.ww-explain .ww-hints p:last-child{margin:0}
.ww-explain .ww-kind{font-size:.7rem;font-weight:700;letter-spacing:.06em;color:var(--soft)}
.ww-explain .ww-gain{background:var(--gain);color:var(--good);border-radius:9px;padding:0 .55rem;font-size:.82rem;font-weight:600;white-space:nowrap}
.ww-explain .ww-idea{color:var(--soft)}.ww-explain .ww-idea::before{content:"→ "}
.ww-explain a{color:inherit;text-decoration:underline;text-decoration-color:var(--faint);text-underline-offset:2px}
.ww-explain .ww-source thead th{font-size:.75rem;color:var(--soft);font-weight:500;white-space:nowrap;border-bottom:1px solid var(--line)}
.ww-explain .ww-source td{padding:0 .5rem;border-bottom:1px solid transparent}
.ww-explain .ww-source td:first-child{color:var(--soft);font-variant-numeric:tabular-nums;text-align:right!important;width:3rem;
border-left:5px solid transparent;padding-left:.3rem}
.ww-explain .ww-source td:nth-child(2){width:99%;min-width:21rem}
.ww-explain .ww-source td:nth-child(n+3){min-width:8.2rem;white-space:nowrap}
.ww-explain .ww-source td:nth-child(n+5){min-width:9.6rem}
.ww-explain .ww-source code{font-size:12.5px;white-space:pre-wrap;tab-size:4;overflow-wrap:anywhere}
.ww-explain .ww-source .ww-quiet code{color:var(--faint)}
.ww-explain tr[data-heat="1"] td:first-child{border-left-color:color-mix(in srgb,var(--waste) 25%,transparent)}
.ww-explain tr[data-heat="2"] td:first-child{border-left-color:color-mix(in srgb,var(--waste) 50%,transparent)}
.ww-explain tr[data-heat="3"] td:first-child{border-left-color:color-mix(in srgb,var(--waste) 75%,transparent)}
.ww-explain tr[data-heat="4"] td:first-child{border-left-color:var(--hot)}
.ww-explain tr[data-heat="3"] code,.ww-explain tr[data-heat="4"] code{font-weight:600}
.ww-explain .ww-bar{display:inline-flex;width:3.2rem;height:.72rem;background:var(--card);border-radius:2px;overflow:hidden;
margin-right:.45rem;vertical-align:-1px}
.ww-explain .ww-bar i{display:block;background:var(--bar)}.ww-explain .ww-bar .ww-need{background:var(--need)}
.ww-explain .ww-bar .ww-waste{background:var(--waste)}
.ww-explain .ww-source .ww-n{font-size:.8rem}
.ww-explain .ww-legend{margin:-.3rem 0 .6rem;font-size:.82rem;color:var(--soft)}
.ww-explain .ww-legend i{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin:0 .3rem 0 .9rem;vertical-align:-1px}
.ww-explain .ww-legend i:first-child{margin-left:0}
.ww-explain details{margin:.5rem 0 0}.ww-explain summary{cursor:pointer;padding:.25rem 0;overflow-wrap:anywhere}
.ww-explain summary>code{color:var(--soft)}.ww-explain .ww-requests details{border-top:1px solid var(--line)}
.ww-explain figure{margin:.8rem 0 1.4rem}.ww-explain figcaption{margin:0 0 .5rem;font-size:.92rem}
.ww-explain .ww-lanes{display:block;width:100%;min-width:720px;max-width:940px;height:auto;font:11px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink)}
.ww-explain .ww-lanes .ww-lane{fill:#14181d;font-size:10.5px;font-weight:600}
.ww-explain .ww-lanes .ww-label{fill:var(--soft);font-variant-numeric:tabular-nums}
.ww-explain .ww-lanes .ww-head{fill:var(--soft)}.ww-explain .ww-lanes .ww-faint{fill:var(--faint)}
.ww-explain .ww-lanes .ww-off{fill:none;stroke:var(--line)}
.ww-explain .ww-lanes .ww-fetched{fill:var(--fetched);stroke:var(--edge);stroke-width:.75}
.ww-explain .ww-lanes .ww-bank{fill:var(--card)}
.ww-explain .ww-lanes .ww-untouched{fill:none;stroke:var(--line);stroke-width:.75}
.ww-explain .ww-lanes .ww-unused{fill:var(--edge)}.ww-explain .ww-lanes .ww-more{fill:var(--ink)}
.ww-explain .ww-lanes .ww-thread path{fill:none;stroke-width:1.4;opacity:.5}
.ww-explain .ww-lanes g:hover>rect{stroke:var(--ink);stroke-width:1.5}
.ww-explain .ww-caveats li{color:var(--soft);font-size:.88rem;margin:0 0 .25rem;padding-left:1rem;text-indent:-1rem}
.ww-explain .ww-caveats li::before{content:"· "}
.ww-explain .ww-plain th{font-size:.75rem;color:var(--soft);font-weight:500}
.ww-explain :target>summary{outline:2px solid var(--waste);outline-offset:3px;border-radius:4px}
@media(max-width:640px){.ww-explain{font-size:14px}.ww-explain h2{font-size:1.2rem}
.ww-explain .ww-limiter tr{display:grid;grid-template-columns:7rem 1fr 4.6rem;align-items:center;margin:0 0 .35rem}
.ww-explain .ww-limiter td,.ww-explain .ww-limiter th{width:auto!important;min-width:0!important}
.ww-explain .ww-limiter .ww-faint{grid-column:1/-1;font-size:.8rem;padding:0}
.ww-explain .ww-source thead{display:none}
.ww-explain .ww-source tr{display:grid;grid-template-columns:2.6rem 1fr}
.ww-explain .ww-source td{min-width:0!important;width:auto!important}
.ww-explain .ww-source td:nth-child(n+3){grid-column:2;font-size:.78rem}
.ww-explain .ww-source td:nth-child(n+3)::before{content:attr(data-label);display:inline-block;width:4rem;color:var(--soft)}
.ww-explain .ww-source td:empty{display:none}}
@media print{.ww-explain{max-width:none}.ww-explain .ww-scroll{overflow:visible}}
"""
