"""ArtifactsWriter, as in `flo`."""

from flo import ArtifactsWriter as ArtifactsWriter
