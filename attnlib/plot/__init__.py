"""Pictures of attention: tables, links, and diagrams of boxes and arrows, all drawn from the tensors given.

The tensors may have any dtype, be on any device, and require a gradient. Most functions return the Axes they drew on,
so that you can add to the picture. matplotlib is imported when something is drawn, not before.
"""

from attnlib.plot.boxes import Arrow, Box, plot_boxes
from attnlib.plot.diagrams import plot_block, plot_course_map, plot_encoder_decoder, plot_flow
from attnlib.plot.film import film
from attnlib.plot.hover import HoverLinks, hover_links
from attnlib.plot.links import plot_links
from attnlib.plot.molecules import plot_reaction
from attnlib.plot.style import ACCENT, COLOUR_MAP, DIVERGING, FONT_SIZE, GREY, INK, PALE, show, use_style
from attnlib.plot.tables import plot_attention, plot_heads, plot_mask
from attnlib.plot.training import training, watched

__all__ = [
    "ACCENT",
    "COLOUR_MAP",
    "DIVERGING",
    "FONT_SIZE",
    "GREY",
    "INK",
    "PALE",
    "Arrow",
    "Box",
    "HoverLinks",
    "film",
    "hover_links",
    "plot_attention",
    "plot_block",
    "plot_boxes",
    "plot_course_map",
    "plot_encoder_decoder",
    "plot_flow",
    "plot_heads",
    "plot_links",
    "plot_mask",
    "plot_reaction",
    "show",
    "training",
    "use_style",
    "watched",
]
