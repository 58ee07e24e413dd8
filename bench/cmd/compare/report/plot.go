package report

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// WritePlots draws the section's plots into a folder.
func (s *Section) WritePlots(folder string) error {
	for i := range s.Plots {
		text, err := s.Plots[i].svg()
		if err != nil {
			return fmt.Errorf("plot %s of section %s: %w", s.Plots[i].Name, s.Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, s.Plots[i].Name+".svg"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// svg draws a plot on a white background, so that it is readable on a dark page, too.
func (p *Plot) svg() ([]byte, error) {
	drawn := plot.New()
	for _, style := range []*font.Font{&drawn.Title.TextStyle.Font, &drawn.X.Label.TextStyle.Font, &drawn.Y.Label.TextStyle.Font,
		&drawn.X.Tick.Label.Font, &drawn.Y.Tick.Label.Font, &drawn.Legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	drawn.Title.Text = p.Title
	drawn.X.Label.Text, drawn.Y.Label.Text = p.X, p.Y
	drawn.X.Tick.Marker, drawn.Y.Tick.Marker = labelTicks{plot.DefaultTicks{}}, labelTicks{plot.DefaultTicks{}}
	drawn.Legend.Top, drawn.Legend.Padding = true, vg.Millimeter
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{Y: 225}, color.Gray{Y: 225}
	drawn.Add(grid)
	add := p.addLine
	if len(p.Bars) > 0 {
		add = p.addBars
		names := slices.Clone(p.Bars)
		slices.Reverse(names) // the first one on top
		drawn.NominalY(names...)
	}
	for i, l := range p.Lines {
		if points := p.shown(l); len(points) > 0 {
			if err := add(drawn, i, l.Name, points); err != nil {
				return nil, err
			}
		}
	}
	if p.LogX {
		logarithmic(&drawn.X)
	}
	if p.LogY {
		logarithmic(&drawn.Y)
	}
	var b bytes.Buffer
	canvas := vgsvg.New(20*vg.Centimeter, 10*vg.Centimeter)
	drawBeside(drawn, draw.New(canvas))
	_, err := canvas.WriteTo(&b)
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;")), err
}

// addLine draws line i.
func (p *Plot) addLine(drawn *plot.Plot, i int, name string, points plotter.XYs) error {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
	dots.Color, dots.Shape = plotutil.Color(i), plotutil.Shape(i)
	drawn.Add(line, dots)
	drawn.Legend.Add(name, line, dots)
	return nil
}

// addBars draws the bars of line i, below those of the previous line.
func (p *Plot) addBars(drawn *plot.Plot, i int, name string, points plotter.XYs) error {
	lengths := make(plotter.Values, len(p.Bars))
	for _, at := range points {
		lengths[len(lengths)-1-int(at.X)] = at.Y // reversed, as the names in svg
	}
	const width = 10
	bars, err := plotter.NewBarChart(lengths, vg.Points(width))
	if err != nil {
		return err
	}
	bars.Horizontal, bars.Color, bars.LineStyle.Width = true, plotutil.Color(i), 0
	bars.Offset = vg.Points(width * (float64(len(p.Lines)-1)/2 - float64(i)))
	drawn.Add(bars)
	drawn.Legend.Add(name, bars)
	return nil
}

// drawBeside draws a plot with its legend on its right, where the legend covers nothing.
func drawBeside(drawn *plot.Plot, on draw.Canvas) {
	legend := drawn.Legend
	drawn.Legend = plot.NewLegend()
	legend.Draw(on)
	space := legend.Rectangle(on).Size().X + 0.5*vg.Centimeter
	drawn.Draw(draw.Crop(on, 0, -space, 0, 0))
}

// logarithmic makes an axis logarithmic, if it has points. It widens the range of a single value, which gonum would begin at or below
// zero.
func logarithmic(a *plot.Axis) {
	if a.Min > a.Max {
		return
	}
	if a.Min == a.Max {
		a.Min, a.Max = a.Min/2, a.Max*2
	}
	a.Scale, a.Tick.Marker = plot.LogScale{}, labelTicks{plot.LogTicks{}}
}

// shown returns the points of a line that its axes can show: a logarithmic axis has no place for zero.
func (p *Plot) shown(l Line) (points plotter.XYs) {
	for _, at := range l.Points {
		if p.LogX && at[0] <= 0 || p.LogY && at[1] <= 0 {
			continue
		}
		points = append(points, plotter.XY{X: at[0], Y: at[1]})
	}
	return points
}

// labelTicks spells the numbers of an axis as the tables do.
type labelTicks struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (s labelTicks) Ticks(low, high float64) []plot.Tick {
	ticks := s.Ticker.Ticks(low, high)
	for i := range ticks {
		if v, err := strconv.ParseFloat(ticks[i].Label, 64); err == nil {
			ticks[i].Label = figure.Text(v)
		}
	}
	return ticks
}
