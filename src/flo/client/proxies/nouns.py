"""The nouns of the client, and what their methods return, blocking.

What type checkers see of them is in nouns.pyi, which is generated: `make docs`.
"""

from flo.client.actions import Actions
from flo.client.blocks.blocks import Blocks
from flo.client.events import Events
from flo.client.groups import ConsumerGroup
from flo.client.handles.execution import WorkflowHandle
from flo.client.handles.invocation import Invocation
from flo.client.handles.pipeline import PipelineHandle
from flo.client.handles.transaction import KvTransaction
from flo.client.kv import Kv
from flo.client.namespaces import Namespaces
from flo.client.pipelines import Pipelines
from flo.client.plans import Plans
from flo.client.proxies.proxy import blocking
from flo.client.safety.audit import Audit
from flo.client.safety.secrets import Secrets
from flo.client.schedules import Schedules
from flo.client.streams import Streams
from flo.client.workers import Workers
from flo.client.workflows import Workflows

BlockingInvocation = blocking(Invocation)
BlockingActions = blocking(Actions)
BlockingWorkers = blocking(Workers)
BlockingWorkflowHandle = blocking(WorkflowHandle)
BlockingWorkflows = blocking(Workflows)
BlockingPipelineHandle = blocking(PipelineHandle)
BlockingPipelines = blocking(Pipelines)
BlockingBlocks = blocking(Blocks)
BlockingSchedules = blocking(Schedules)
BlockingPlans = blocking(Plans)
BlockingEvents = blocking(Events)
BlockingConsumerGroup = blocking(ConsumerGroup)
BlockingStreams = blocking(Streams)
BlockingKvTransaction = blocking(KvTransaction)
BlockingKv = blocking(Kv)
BlockingNamespaces = blocking(Namespaces)
BlockingSecrets = blocking(Secrets)
BlockingAudit = blocking(Audit)
