#include "diff/report_plot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "core/escape.h"
#include "diff/report_parts.h"

namespace tl::report {
namespace {

constexpr double kLeft = 56;
constexpr double kTop = 12;
constexpr double kWidth = 880;
constexpr double kHeight = 220;
/// Points drawn at most; of more sites each point shows the worst of its share.
constexpr std::size_t kPoints = 440;

/// Coordinates with one decimal.
std::string coordinate(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 1);
  return {buffer.data(), end.ptr};
}

struct Point {
  std::size_t row = 0;  ///< the worst site of the share
  double error = 0;
  double floor = 0;
  bool compared = false;
};

/// The worst site of each of at most kPoints shares of the rows.
std::vector<Point> worst_of_shares(const DiffReport& report) {
  const std::size_t rows = report.sites.size();
  std::vector<Point> points(std::min(rows, kPoints));
  for (std::size_t row = 0; row < rows; ++row) {
    const DiffSite& site = report.sites[row];
    if (site.site_class == SiteClass::kNotCompared) continue;
    Point& point = points[row * points.size() / rows];
    point.floor = std::max(point.floor, site.noise_floor);
    if (point.compared && site.error <= point.error) continue;
    point.row = row;
    point.error = site.error;
    point.compared = true;
  }
  std::erase_if(points, [](const Point& point) { return !point.compared; });
  return points;
}

/// Decades from the least to the greatest positive finite value, at least one.
struct LogAxis {
  int low = 0;
  int high = 0;

  explicit LogAxis(const std::vector<double>& values) {
    std::optional<double> least;
    std::optional<double> most;
    for (const double value : values) {
      if (!(value > 0) || !std::isfinite(value)) continue;
      least = std::min(least.value_or(value), value);
      most = std::max(most.value_or(value), value);
    }
    low = static_cast<int>(std::floor(std::log10(least.value_or(1e-8))));
    high = std::max(static_cast<int>(std::ceil(std::log10(most.value_or(1)))), low + 1);
  }

  /// Zero lies on the lower edge, infinity on the upper one.
  double y(double value) const {
    if (!(value > 0)) return kTop + kHeight;
    if (std::isinf(value)) return kTop;
    const double share = (std::log10(value) - low) / (high - low);
    return kTop + kHeight * (1 - std::clamp(share, 0.0, 1.0));
  }

  std::string grid() const {
    std::string text;
    const int step = std::max(1, (high - low + 7) / 8);
    for (int decade = low; decade <= high; decade += step) {
      const std::string y = coordinate(kTop + kHeight * (1 - static_cast<double>(decade - low) / (high - low)));
      text += "<line class=\"grid\" x1=\"56\" x2=\"936\" y1=\"" + y + "\" y2=\"" + y + "\"/><text x=\"50\" y=\"" + y +
              "\">1e" + std::to_string(decade) + "</text>";
    }
    return text;
  }
};

std::string begin_svg(std::string_view label) {
  return "<svg class=\"plot\" viewBox=\"0 0 944 244\" role=\"img\" aria-label=\"" + escape_for_html(label) + "\">";
}

double x_of(std::size_t index, std::size_t count) {
  return count < 2 ? kLeft + kWidth / 2 : kLeft + kWidth * static_cast<double>(index) / static_cast<double>(count - 1);
}

}  // namespace

std::string growth_plot(const DiffReport& report) {
  const std::vector<Point> points = worst_of_shares(report);
  if (points.empty()) return {};
  std::vector<double> values;
  for (const Point& point : points) {
    values.push_back(point.error);
    values.push_back(point.floor);
  }
  const LogAxis axis(values);
  const std::size_t rows = report.sites.size();
  std::string floor;
  std::string dots;
  for (const Point& point : points) {
    const DiffSite& site = report.sites[point.row];
    const std::string x = coordinate(x_of(point.row, rows));
    if (point.floor > 0) floor += (floor.empty() ? "" : " ") + x + "," + coordinate(axis.y(point.floor));
    dots += "<circle class=\"c" + std::to_string(static_cast<int>(site.site_class)) + "\" cx=\"" + x + "\" cy=\"" +
            coordinate(axis.y(point.error)) + "\" r=\"" + (site.site_class == SiteClass::kSource ? "4.5" : "2.5") +
            "\"><title>" + escape_for_html(name_of(site) + " " + label_of(site) + ": " + short_number(point.error)) +
            "</title></circle>";
  }
  return begin_svg("error by site, logarithmic") + axis.grid() + "<polyline class=\"floor\" points=\"" + floor +
         "\"/>" + dots + "</svg>\n";
}

std::string series_plot(const GrowthSeries& series) {
  const LogAxis axis(series.errors);
  std::string line;
  std::string dots;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < series.errors.size(); ++i) {
    if (series.errors[i] < 0) continue;
    ++compared;
    const std::string x = coordinate(x_of(i, series.errors.size()));
    const std::string y = coordinate(axis.y(series.errors[i]));
    const std::int64_t number = series.first + static_cast<std::int64_t>(i);
    line += (line.empty() ? "" : " ") + x + "," + y;
    dots += std::string("<circle class=\"") + (number == series.jump ? "c1" : "c0") + "\" cx=\"" + x + "\" cy=\"" + y +
            "\" r=\"3\"><title>" +
            escape_for_html(series.name + "." + std::to_string(number) + ": " + short_number(series.errors[i])) +
            "</title></circle>";
  }
  if (compared < 2) return {};
  return begin_svg("error along " + series.name) + axis.grid() + "<polyline class=\"series\" points=\"" + line +
         "\"/>" + dots + "</svg>\n";
}

}  // namespace tl::report
