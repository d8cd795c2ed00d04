"""The lab's slurm.conf. proctrack/linuxproc and no cgroups: a test machine may have none to give."""

CONFIG = """ClusterName=lab
SlurmctldHost={host}({address})
SlurmctldPort={port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={slurmd_user}
DisableRootJobs=YES
AuthType=auth/munge
CredType=cred/munge
# Below 5 seconds Slurm falls back to 120 without a word.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
{listen}
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PropagateResourceLimits=NONE
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/node/%n/own
SlurmctldPidFile={folder}/state/slurmctld.pid
SlurmdPidFile={folder}/node/%n/own/slurmd.pid
SlurmctldLogFile={folder}/state/slurmctld.log
SlurmdLogFile={folder}/node/%n/own/slurmd.log
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
RequeueExit=99
KillWait=5
MessageTimeout={message_timeout}
SlurmdTimeout={slurmd_timeout}
MinJobAge=300
{nodes}
PartitionName=spot Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace_s} MaxTime=INFINITE State=UP
PartitionName=prod Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""
