"""Graph networks of PyG, in plain torch: nodes and edges in any number."""

from __future__ import annotations

from typing import Any

from torch import nn

from zoo.entry import Entry, Sized, floats, integers

NODES = 4
"""Edges lead between the first nodes, so that any number of nodes from there on is right."""
GRAPH: dict[str, Sized] = {"x": floats("nodes+4 8"), "edge_index": integers("2 edges", NODES)}


def of_pyg(name: str, *args: Any, inputs: Any = GRAPH, **sizes: Any) -> Entry:
    """A layer or model of PyG over node features and a list of edges."""

    def build(_: bool) -> nn.Module:  # noqa: FBT001 - it has no published size
        import torch_geometric.nn as pyg

        return getattr(pyg, name)(*args, **sizes)

    return Entry(build, inputs, needs="torch_geometric")


POSITIONS = {"z": integers("nodes+4", 9, 1), "pos": floats("nodes+4 3")}
ENTRIES: dict[str, Entry] = {
    "pyg_appnp": of_pyg("APPNP", 3, 0.1),
    "pyg_cheb": of_pyg("ChebConv", 8, 4, 3),
    "pyg_edge_cnn": of_pyg("EdgeCNN", 8, 16, 2, 4),
    "pyg_gat": of_pyg("GAT", 8, 16, 2, 4),
    "pyg_gat_v2": of_pyg("GATv2Conv", 8, 4, heads=2),
    "pyg_gated": of_pyg("GatedGraphConv", 8, 2),
    "pyg_gcn": of_pyg("GCN", 8, 16, 2, 4),
    "pyg_gin": of_pyg("GIN", 8, 16, 2, 4),
    "pyg_graph_conv": of_pyg("GraphConv", 8, 4),
    "pyg_pna": of_pyg("LEConv", 8, 4),
    "pyg_sage": of_pyg("GraphSAGE", 8, 16, 2, 4),
    "pyg_sg": of_pyg("SGConv", 8, 4, K=2),
    "pyg_tag": of_pyg("TAGConv", 8, 4),
    "pyg_transformer": of_pyg("TransformerConv", 8, 4, heads=2),
}
