"""What every benchmark module takes whose ranks may run on several nodes."""


class ModuleDocFragment:
    """Ansible's entry."""

    DOCUMENTATION = r"""
options:
  nodes:
    description:
      - Nodes that take part, by the names that records have for them. Empty means this node alone.
    type: list
    elements: str
    default: []
  hosts:
    description: The same nodes as ssh or Slurm knows them, where those names differ.
    type: list
    elements: str
    default: []
  absent:
    description:
      - Of O(nodes), those that must not be used now, because the play has lost or left them out.
        With any, nothing is run, and it fails with their names.
    type: list
    elements: str
    default: []
  launcher:
    description:
      - What starts the ranks. C(local) is this node alone (several ranks by its own mpirun).
        C(mpirun) reaches the nodes over ssh, without a password and with their host keys known;
        each is asked first, and now and then while it runs. C(slurm) submits a job (sbatch) of the
        whole nodes and starts the ranks in it with srun; it is cancelled at the time limit, when a
        node of it is lost, and when this module is interrupted.
    type: str
    choices: [local, mpirun, slurm]
    default: local
  launcher_path:
    description: The program mpirun, or the folder of Slurm's commands. By default those on PATH.
    type: path
  launcher_arguments:
    description:
      - More arguments of mpirun or of srun, such as C(--mca btl_tcp_if_include eth0) as two words
        or C(--mpi=pmix).
    type: list
    elements: str
    default: []
  job_directory:
    description:
      - With C(launcher=slurm), a folder that this node and the nodes of the job share. The job's
        output is written and kept there.
    type: path
  job_options:
    description:
      - With C(launcher=slurm), more arguments of sbatch, such as C(--partition=hbv3). Those that
        take the job's output or its end elsewhere (C(--output), C(--wait), C(--array),
        C(--clusters)), or would make it another run than its record says (C(--nodelist),
        C(--nodes), C(--ntasks), C(--export)), are refused.
    type: list
    elements: str
    default: []
  queue_seconds:
    description:
      - With C(launcher=slurm), how long the job may wait for its nodes. O(timeout_seconds) begins
        when it runs.
    type: int
    default: 3600
"""
