{
 "ansible_facts_gathered": true,
 "trueup_devito": {
  "benchmark": "devito",
  "case": "acoustic-so8-r1t4",
  "command": [
   "python",
   "-m",
   "made"
  ],
  "duration_seconds": 24.0,
  "environment": {
   "OMP_NUM_THREADS": "4"
  },
  "gpus": 0,
  "metrics": [
   {
    "direction": "lower",
    "n": 3,
    "name": "run_time",
    "statistic": "median",
    "unit": "s",
    "value": 6.0
   },
   {
    "direction": "lower",
    "n": 3,
    "name": "run_time",
    "statistic": "min",
    "unit": "s",
    "value": 5.4
   },
   {
    "direction": "lower",
    "n": 3,
    "name": "run_time",
    "statistic": "max",
    "unit": "s",
    "value": 7.199999999999999
   },
   {
    "direction": "higher",
    "n": 3,
    "name": "flop_rate",
    "statistic": "median",
    "unit": "flop/s",
    "value": 666666666666.6666
   },
   {
    "direction": "higher",
    "n": 3,
    "name": "point_rate",
    "statistic": "median",
    "unit": "point/s",
    "value": 1118481066.6666667
   },
   {
    "direction": "higher",
    "n": 3,
    "name": "roofline_fraction",
    "statistic": "median",
    "unit": "1",
    "value": 0.5
   }
  ],
  "node_count": 1,
  "nodes": [
   "made-2"
  ],
  "offer": "payg",
  "outcome": "ok",
  "parameters": {
   "binding": "none",
   "layout": "1x4",
   "model": "acoustic",
   "mpi": "off",
   "points": 16777216,
   "scaling": "strong",
   "shape": "256x256x256",
   "space_order": 8,
   "tn_ms": 200
  },
  "ranks": 1,
  "raw": null,
  "reason": null,
  "region": "eastus",
  "run_id": "20261120T091300Z-7c1e",
  "schema": "trueup.record/1",
  "software": {
   "devito": "4.8.23"
  },
  "started_at": "2026-11-20T09:13:00Z",
  "system": {
   "cores": 8,
   "cpu_model": "made"
  },
  "threads_per_rank": 4,
  "vm_size": "Standard_HB120rs_v3"
 },
 "trueup_node": {
  "cores": 120,
  "family": "hbv3"
 }
}
